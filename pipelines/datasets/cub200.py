"""Caltech-UCSD Birds-200-2011."""

import numpy as np

from pipelines.dataset import DataDir, Dataset, Split
from pipelines.datasets.csv import read_numbered
from pipelines.datasets.published import Published
from pipelines.labels import read_levels
from tfdml.registry import register

LISTS = ("images.txt", "image_class_labels.txt", "classes.txt")
CUB200 = Published(
    name="cub200",
    page="https://www.vision.caltech.edu/datasets/cub_200_2011/",
    folder="CUB_200_2011",
    layouts=((*LISTS, "images"),),
    archives={"CUB_200_2011.tgz": "CUB_200_2011"},
)


@register("dataset", "cub200")
def cub200(data_dir: DataDir, cropped: bool = False) -> Dataset:
    """Loads CUB-200-2011, 11,788 images of 200 bird species, with the first half of the species for training.

    To use a class hierarchy, such as families, add your own `classes.csv` to its folder. The column `class` contains
    the names in `classes.txt`, with or without their numbers, and each further column is a level.

    Args:
        data_dir: Folder with `CUB_200_2011`, or that folder itself.
        cropped: Boolean. Whether to crop each image to the bird's bounding box. Defaults to `False`.
    """
    folder, _ = CUB200.find(data_dir)
    names = read_numbered(folder / "images.txt", image_id=int, image_name=str)
    classes = read_numbered(folder / "image_class_labels.txt", image_id=int, class_id=int)
    class_names = read_numbered(folder / "classes.txt", class_id=int, class_name=str)
    _same_images(folder, names, classes, "image_class_labels.txt")
    images = np.array([str(folder / "images" / name) for name in names.values()], dtype=object)
    labels = np.array([classes[number] for number in names], np.int64)
    levels = {}
    for level, categories in read_levels(folder / "classes.csv").items():
        found = {
            number: categories.get(name, categories.get(name.partition(".")[2])) for number, name in class_names.items()
        }
        levels[level] = {number: category for number, category in found.items() if category is not None}
    boxes = None
    if cropped:
        # The file contains left, top, width and height.
        columns = {side: float for side in ("x", "y", "width", "height")}
        of_images = read_numbered(folder / "bounding_boxes.txt", image_id=int, **columns)
        _same_images(folder, names, of_images, "bounding_boxes.txt")
        left, top, width, height = np.array([of_images[number] for number in names]).T
        corners = np.floor(left), np.floor(top), np.ceil(left + width), np.ceil(top + height)
        boxes = np.stack(corners, axis=1).astype(np.int32)
    both = Split(images, labels, class_names, boxes=boxes, levels=levels or None)
    train, test = both.halves()
    CUB200.check_counts("train", train, images=5864, classes=100)
    CUB200.check_counts("test", test, images=5924, classes=100)
    return Dataset("cub200", train, test)


def _same_images(folder, names, others, other_list):
    different = sorted(names.keys() ^ others.keys())
    if different:
        raise ValueError(
            f"images.txt and {other_list} in {folder} do not list the same images: {len(different)} are in only one of "
            f"them, for example image_id {different[0]}. Download the dataset again."
        )
