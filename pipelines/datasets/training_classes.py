"""The training classes of another dataset alone, some of which are held out as the test."""

from pipelines.datasets.dataset import Dataset
from pipelines.datasets.dataset_arguments import HeldOut
from pipelines.datasets.ignoring import read_list, without
from tfdml import registry
from tfdml.registry import register
from tfdml.registry.arguments import FilePath, Seed, Text

# Of one class every image finds another.
FEWEST = 2


@register("dataset", "training_classes")
def training_classes(
    dataset: Text,
    held_out: HeldOut = 0.2,
    seed: Seed = 0,
    ignore_images: FilePath | None = None,
    data_dir: FilePath | None = None,
) -> Dataset:
    """The training classes of another dataset, some held out as the test, to choose settings; its own test is unused.

    The classes that are held out are those of `--evaluate_on=validation`. No image of the dataset's test is opened.

    Args:
        dataset: spec of the other dataset, such as "folder(test_classes=0.3)".
        held_out: fraction of its training classes that are the test here, as `--validation_classes`.
        seed: decides which classes, as `--validation_seed`.
        ignore_images: list of images to leave out, by their names in the other dataset, as `--ignore_images`.
        data_dir: folder of the other dataset.
    """
    whole = registry.create("dataset", dataset, data_dir=data_dir)
    if whole.train is None:
        raise ValueError(f"The dataset {dataset!r} has no training images, of which some could be held out.")
    if ignore_images:
        whole, _ = without(whole, read_list(ignore_images), data_dir)
    train, test = whole.hold_out(held_out, seed)
    if test.num_classes < FEWEST:
        raise ValueError(
            f"Holding out {held_out} of {whole.train.num_classes} training classes leaves {test.num_classes} class to "
            f"measure on. Expected {FEWEST} or more: hold out more, or add classes."
        )
    return Dataset("training_classes", train, test, protocol=whole.protocol, look_inside=whole.look_inside)
