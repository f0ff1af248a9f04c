"""Your own images, with one folder per class."""

import collections
import logging
import os
import shlex
from pathlib import Path

import numpy as np

from pipelines.checks import converted_endings, why_unread
from pipelines.dataset import DataDir, Dataset, Split, TestClasses
from pipelines.labels import SPLITS, Undivided, in_order_of_groups, read_class_groups, read_levels
from tfdml.registry import register
from tfdml.registry.arguments import Seed

ENDINGS = (".jpg", ".jpeg", ".jfif", ".png", ".webp", *converted_endings())
# Image formats that are not read, so a warning counts the files. Pillow can convert the first ones.
PILLOWS = (".bmp", ".gif", ".tif", ".tiff", ".jp2")
OTHER_IMAGES = (*PILLOWS, ".heic", ".heif", ".hif", ".avif", ".svg", ".raw", ".cr2", ".nef", ".dng")
CONVERT = (
    "python -c \"import sys; from PIL import Image; [Image.open(each).convert('RGB').save(each + '.png') for each in "
    'sys.argv[1:]]"'
)

# Advice for images that are not in class folders.
WITHOUT_CLASSES = (
    "Without classes, use --dataset=photos --sampler=auto, which reads images at any depth and learns from their views."
)


def existing_folder(dataset, data_dir, needs, *places):
    """Returns the folder of the user's own images; raises an error with what the dataset needs if there is none."""
    if not data_dir:
        raise ValueError(
            f"data_dir is missing. The dataset {dataset!r} needs {needs}. Pass data_dir, or --data_dir on the command "
            "line."
        )
    root = Path(data_dir).expanduser()
    if not root.is_dir():
        raise FileNotFoundError(
            f"The folder {root} does not exist. Expected images at "
            f"{' and '.join(f'{root}/{place}' for place in places)}. If the images have moved, pass the new data_dir, "
            "or --data_dir on the command line."
        )
    return root


@register("dataset", "folder")
def folder(
    data_dir: DataDir,
    test_classes: TestClasses | None = None,
    seed: Seed = 0,
    class_groups: str | None = None,
) -> Dataset:
    """Loads your own images at `<class>/*.jpg` (set `test_classes`), or at `train/<class>/` and `test/<class>/`.

    If `data_dir` contains a table `classes.csv`, its columns are also levels of the class hierarchy, for `--levels`.

    Args:
        data_dir: Folder with the class folders if `test_classes` is set. Otherwise the folder with `train` and `test`,
            which must have different classes. For evaluation, `test` is enough.
        test_classes: Float or `None`. Fraction of the classes to test on, for example 0.3. The other classes are for
            training. If `None`, the folders `train` and `test` divide the classes. Defaults to `None`.
        seed: Integer. Determines the test classes. Defaults to `0`.
        class_groups: Text or `None`. Column of `classes.csv` that groups similar classes, for example `"genus"` for
            birds. The column `class` contains the names of the class folders. Validation then holds out whole groups,
            and labels are numbered group by group, in the order of the table. Defaults to `None`.
    """
    needs = "the folder with train/<class>/ and test/<class>/, or with <class>/ for 'folder(test_classes=0.3)'"
    layout = ("train/<class>/*.jpg", "test/<class>/*.jpg") if test_classes is None else ("<class>/*.jpg",)
    root = existing_folder("folder", data_dir, needs, *layout)
    table = root / "classes.csv"
    groups = None if class_groups is None else read_class_groups(table, class_groups)
    levels = read_levels(table)
    if test_classes is not None:
        folders = _class_folders(root)
        both = [part for part in SPLITS if part in folders and _folders_in(folders[part])]
        if both:
            raise ValueError(
                f"{root} is already divided, because it has a folder {both[0]} with class folders. Remove "
                "test_classes: use the dataset 'folder'."
            )
        rows = _read_split(folders, 0, groups, levels)
        return Undivided(rows, test_classes, seed).divide("folder", look_inside=True)
    classes = {part: _class_folders(root / part) for part in _parts_in(root)}
    in_train, in_test = (classes.get(part, {}) for part in SPLITS)
    shared = sorted(set(in_train) & set(in_test))
    if shared:
        raise ValueError(
            f"Training and test must have different classes; {data_dir} has {len(shared)} in both: "
            f"{', '.join(shared[:5])}."
        )
    train = _read_split(in_train, 0, groups, levels) if in_train else None
    test = _read_split(in_test, len(in_train), groups, levels)
    return Dataset("folder", train=train, test=test, look_inside=True)


def _parts_in(root):
    """Returns which of the folders `train` and `test` exist."""
    if (root / "test").is_dir():
        return [part for part in SPLITS if (root / part).is_dir()]
    here = root / "train" if (root / "train").is_dir() else root
    missing = f"The folder {root}/test does not exist" if here != root else f"{root} has no folders train and test"
    classes = len(_folders_in(here))
    divide = (
        f" To divide the {classes} class folders in {here} at random, use the dataset 'folder(test_classes=0.3)' with "
        f"data_dir={here}. On the command line: --data_dir={here} --dataset='folder(test_classes=0.3)'."
    )
    raise FileNotFoundError(
        f"{missing}. Expected images at {root}/train/<class>/*.jpg, and images of other classes at "
        f"{root}/test/<class>/*.jpg.{divide if classes > 1 else ''}"
    )


def _folders_in(folder):
    return {entry.name: entry for entry in sorted(folder.iterdir()) if entry.is_dir() and entry.name[0] != "."}


def _class_folders(part):
    classes = _folders_in(part)
    if not classes:
        images = sum(path.suffix.lower() in ENDINGS and path.name[0] != "." for path in part.iterdir())
        found = f"{images:,} images and no class folders" if images else "no class folders"
        hint = f" {WITHOUT_CLASSES}" if images else ""
        raise ValueError(f"{part} has {found}. Expected images at {part}/<class>/*.jpg.{hint}")
    return classes


def is_other_image(path):
    """Returns whether a path is an image in a format that tfdml does not read."""
    return path.suffix.lower() in set(OTHER_IMAGES) - set(ENDINGS) and not path.is_dir()


def tell_of_others(paths):
    """Warns about images in unsupported formats, a list of `Path`: how many there are, and how to convert them."""
    if not paths:
        return
    root = os.path.commonpath([path.parent for path in paths])
    counts = collections.Counter(path.suffix.lower() for path in paths)
    listed = ", ".join(f"{count:,} {ending}" for ending, count in counts.most_common())
    images = "1 image" if len(paths) == 1 else f"{len(paths):,} images"
    sentences = [f"{images} in {root} cannot be read and will be skipped: {listed}."]
    for remedy in dict.fromkeys(filter(None, map(why_unread, counts))):
        endings = " and ".join(ending for ending in counts if why_unread(ending) == remedy)
        sentences.append(f"To read {endings}, run {remedy}.")
    if convertible := [ending for ending in counts if ending in PILLOWS]:
        # The command is quoted for a shell.
        names = " -o ".join(f"-iname '*{ending}'" for ending in convertible)
        sentences.append(f"To write a PNG next to each {' and '.join(convertible)}, run:")
        sentences.append(f"find {shlex.quote(root)} \\( {names} \\) -exec {CONVERT} {{}} +")
    elif any(why_unread(ending) is None for ending in counts):
        sentences.append("Save them as JPEG or PNG.")
    logging.getLogger(__name__).warning("%s", " ".join(sentences))


def _read_split(classes, first_label, groups, levels):
    if groups is not None:
        classes = in_order_of_groups(classes, groups)
    paths, labels, left_out, others = [], [], [], []
    for label, class_folder in enumerate(classes.values(), start=first_label):
        entries = sorted(class_folder.iterdir())
        # Names that start with a dot are not photos: macOS writes ._photo.jpg next to photo.jpg.
        entries = [path for path in entries if path.name[0] != "."]
        found = [path for path in entries if path.suffix.lower() in ENDINGS and not path.is_dir()]
        left_out += [path for path in entries if path.is_dir()]
        others += [path for path in entries if is_other_image(path)]
        deeper = () if found else sorted(class_folder.rglob("*"))
        inside = [path for path in deeper if path.suffix.lower() in ENDINGS and path.name[0] != "." and path.is_file()]
        if inside:
            raise ValueError(
                f"The images of the class folder {class_folder} are in subfolders, such as {inside[0]}. Expected them "
                f"at {class_folder}/*.jpg. Move them up. {WITHOUT_CLASSES}"
            )
        if not found:
            tell_of_others(others)
            raise ValueError(
                f"The class folder {class_folder} has no images. Expected files with one of the extensions "
                f"{', '.join(ENDINGS)}. Add some, or remove the folder."
            )
        paths += [str(path) for path in found]
        labels += [label] * len(found)
    if left_out:
        logging.getLogger(__name__).warning(
            "%d subfolders of class folders are ignored, for example %s. Move their images up to use them.",
            len(left_out),
            left_out[0],
        )
    tell_of_others(others)
    names = dict(enumerate(classes, start=first_label))
    about = {"class_groups": None if groups is None else {number: groups[name] for number, name in names.items()}}
    if levels:
        about["levels"] = {
            level: {number: categories.get(name) for number, name in names.items()}
            for level, categories in levels.items()
        }
    return Split(np.array(paths, dtype=object), np.array(labels, np.int64), names, **about)
