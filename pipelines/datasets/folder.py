"""Your own images in folders: the way people keep them."""

from pathlib import Path

import numpy as np
from absl import logging

from pipelines.datasets.dataset import Dataset, Split
from tfdml.registry import register

ENDINGS = (".jpg", ".jpeg", ".jfif", ".png", ".bmp", ".gif", ".webp")
# Of images that cannot be read, and so are told of.
OTHER_IMAGES = (".tif", ".tiff", ".heic", ".heif", ".avif", ".jp2", ".svg", ".raw", ".cr2", ".nef", ".dng")


@register("dataset", "folder")
def folder(data_dir):
    """Images at `train/<class>/*.jpg` and `test/<class>/*.jpg` under `--data_dir`; test classes are new ones.

    Args:
        data_dir: the folder that holds `train` and `test`.
    """
    if not data_dir:
        raise ValueError(
            "The dataset 'folder' needs --data_dir: the folder that holds train/<class>/ and test/<class>/."
        )
    train_classes, test_classes = (_class_folders(Path(data_dir).expanduser() / part) for part in ("train", "test"))
    shared = sorted(set(train_classes) & set(test_classes))
    if shared:
        raise ValueError(
            f"Training and test must have different classes; {data_dir} has {len(shared)} in both: "
            f"{', '.join(shared[:5])}."
        )
    train = _read_split(train_classes, first_label=0)
    test = _read_split(test_classes, first_label=len(train_classes))
    return Dataset("folder", train=train, test=test, look_inside=True)


def _class_folders(part):
    if not part.is_dir():
        raise FileNotFoundError(f"No folder {part}. Expected images at {part}/<class>/*.jpg.")
    classes = {entry.name: entry for entry in sorted(part.iterdir()) if entry.is_dir() and entry.name[0] != "."}
    if not classes:
        raise ValueError(f"{part} has no class folders. Expected images at {part}/<class>/*.jpg.")
    return classes


def _read_split(classes, first_label):
    paths, labels, left_out = [], [], []
    for label, class_folder in enumerate(classes.values(), start=first_label):
        entries = sorted(class_folder.iterdir())
        found = [path for path in entries if path.suffix.lower() in ENDINGS]
        left_out += [path for path in entries if path.suffix.lower() in OTHER_IMAGES]
        left_out += [path for path in entries if path.is_dir() and path.name[0] != "."]
        if not found:
            raise ValueError(
                f"The class folder {class_folder} has no images. Expected files ending in {', '.join(ENDINGS)}; "
                "put some in, or remove the folder."
            )
        paths += [str(path) for path in found]
        labels += [label] * len(found)
    if left_out:
        logging.warning(
            "%d entries of class folders are left out, first %s: no folder in a class folder is looked into, and only "
            "%s are read.",
            len(left_out),
            left_out[0],
            ", ".join(ENDINGS),
        )
    names = dict(enumerate(classes, start=first_label))
    return Split(np.array(paths, dtype=object), np.array(labels, dtype=np.int64), class_names=names)
