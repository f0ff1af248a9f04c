"""Market-1501."""

import logging
import re

import numpy as np

from pipelines.dataset import DataDir, Dataset, Split
from pipelines.datasets.published import Published
from tfdml.registry import register

FOLDERS = ("bounding_box_train", "query", "bounding_box_test")
MARKET1501 = Published(
    name="market1501",
    page="https://zheng-lab.cecs.anu.edu.au/Project/project_reid.html",
    folder="Market-1501-v15.09.15",
    layouts=(FOLDERS,),
    archives={"Market-1501-v15.09.15.zip": "Market-1501-v15.09.15"},
)
# Some names in the official files end with ".jpg.jpg".
NAME = re.compile(r"(-1|\d{4})_c(\d+)s\d+_\d+_\d+\.jpg(\.jpg)?")
JUNK = -1


@register("dataset", "market1501")
def market1501(data_dir: DataDir) -> Dataset:
    """Loads Market-1501 for person re-identification across cameras, with distractors but without junk images.

    For a query, gallery images of the same person by the same camera are ignored.

    Args:
        data_dir: Folder with `Market-1501-v15.09.15`, or that folder itself.
    """
    folder, _ = MARKET1501.find(data_dir)
    train, query, gallery = (_read(folder / name) for name in FOLDERS)
    for name, split, images, classes in (("train", train, 12936, 751), ("query", query, 3368, 750)):
        MARKET1501.check_counts(name, split, images=images, classes=classes)
    # This count excludes junk images too. The distractors are one more class besides the persons.
    MARKET1501.check_counts("gallery", gallery, images=15913, classes=751)
    both = [(query.images, gallery.images), (query.labels, gallery.labels), (query.cameras, gallery.cameras)]
    images, labels, cameras = (np.concatenate(columns) for columns in both)
    is_query = np.arange(len(labels)) < len(query)
    test = Split(images, labels, cameras=cameras, is_query=is_query, is_gallery=~is_query)
    return Dataset("market1501", train, test, protocol="query_gallery")


def _read(folder):
    """Reads the images in a folder, with person and camera from their names, and skips junk images."""
    names = sorted(entry.name for entry in folder.iterdir() if entry.suffix == ".jpg" and entry.name[0] != ".")
    matches = [NAME.fullmatch(name) for name in names]
    if None in matches:
        raise ValueError(
            f"{folder} contains an unknown image. Expected names such as 0001_c1s1_000151_01.jpg. Received: "
            f"{names[matches.index(None)]!r}. Remove it."
        )
    persons, cameras = (np.array([int(match[part]) for match in matches], np.int64) for part in (1, 2))
    images = np.array([f"{folder}/{name}" for name in names], dtype=object)
    junk = int(np.sum(persons == JUNK))
    if junk:
        logging.getLogger(__name__).info(
            "%s: %d junk images (-1_...) are skipped, as the protocol of the dataset requires.", folder, junk
        )
    return Split(images, persons, cameras=cameras).where(persons != JUNK)
