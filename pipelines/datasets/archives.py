"""Your own images in Parquet files with an image column, such as Hugging Face datasets, or in WebDataset tar files."""

import numpy as np

from pipelines.archives import files_of, read_parquet, read_tar
from pipelines.dataset import Dataset, Split, TestClasses
from pipelines.labels import Undivided, class_numbers_of
from tfdml.registry import register
from tfdml.registry.arguments import FilePath, Seed, Text


@register("dataset", "parquet")
def parquet(
    path: FilePath,
    test: FilePath | None = None,
    test_classes: TestClasses | None = None,
    seed: Seed = 0,
    image: Text | None = None,
    label: Text = "label",
) -> Dataset:
    """Loads Parquet files with an image column, such as the files of Hugging Face datasets.

    Labels are in memory, and images are read when they are needed. If the column has integer labels, and the file
    stores the names of the classes, these names are used.

    Args:
        path: Path of a file, a folder with files, or a pattern such as `data/train-*.parquet`.
        test: The same for the test classes, or `None`. If `None`, set `test_classes`. Defaults to `None`.
        test_classes: Float or `None`. Fraction of the classes in `path` to test on, for example 0.3, instead of
            `test`. Defaults to `None`.
        seed: Integer. Determines the test classes. Defaults to `0`.
        image: Name of the column with the contents of image files: bytes, or structs with the field `bytes`. If
            `None`, it is the only such column. Defaults to `None`.
        label: Name of the column with the class, a text or an integer. Defaults to `"label"`.
    """
    return _dataset("parquet", path, test, test_classes, seed, lambda files: read_parquet(files, image, label))


@register("dataset", "webdataset")
def webdataset(
    path: FilePath,
    test: FilePath | None = None,
    test_classes: TestClasses | None = None,
    seed: Seed = 0,
    label: Text = "cls",
) -> Dataset:
    """Loads tar files in the format of WebDataset: members of one sample have the same name up to the first dot.

    Labels are in memory, and images are read when they are needed. Tar files must not be compressed.

    Args:
        path: Path of a file, a folder with files, or a pattern such as `shards/train-*.tar`.
        test: The same for the test classes, or `None`. If `None`, set `test_classes`. Defaults to `None`.
        test_classes: Float or `None`. Fraction of the classes in `path` to test on, for example 0.3, instead of
            `test`. Defaults to `None`.
        seed: Integer. Determines the test classes. Defaults to `0`.
        label: Extension of the member with the class, such as `"cls"` or `"txt"`, or a value in the sample's JSON, such
            as `"json.brand"`. Defaults to `"cls"`.
    """
    return _dataset("webdataset", path, test, test_classes, seed, lambda files: read_tar(files, label))


def _dataset(name, path, test, test_classes, seed, read):
    if (test is None) == (test_classes is None):
        raise ValueError(
            f"The dataset {name} needs either test, the files with the test classes, or test_classes, the fraction of "
            f"the classes in path to test on. Received: {'neither' if test is None else 'both'}."
        )
    images, texts = zip(*(read(files_of(each)) for each in (path, test) if each is not None), strict=True)
    labels, class_names = class_numbers_of(sum(texts, []))
    splits = [
        Split(part, own, class_names=class_names)
        for part, own in zip(images, np.split(labels, np.cumsum([len(part) for part in images])[:-1]), strict=True)
    ]
    return Dataset(name, *splits) if test else Undivided(splits[0], test_classes, seed).divide(name)
