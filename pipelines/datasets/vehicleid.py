"""PKU VehicleID."""

from typing import Literal

import numpy as np

from pipelines.dataset import DataDir, Dataset, Split
from pipelines.datasets.csv import read_list
from pipelines.datasets.published import Published
from tfdml.registry import register

TRAIN_LIST = "train_test_split/train_list.txt"
# Size: vehicles in the test list, which is in its name, and images in it. The published lists have other counts than
# the paper.
SIZES = {"small": (800, 6493), "medium": (1600, 13377), "large": (2400, 19777)}
VEHICLEID = Published(
    name="vehicleid",
    page="https://www.pkuml.org/resources/pku-vehicleid.html (on request)",
    folder="VehicleID_V1.0",
    layouts=((TRAIN_LIST, *(f"train_test_split/test_list_{vehicles}.txt" for vehicles, _ in SIZES.values()), "image"),),
    archives={"VehicleID_V1.0.zip": "VehicleID_V1.0"},
)


@register("dataset", "vehicleid")
def vehicleid(data_dir: DataDir, size: Literal["small", "medium", "large"] = "small") -> Dataset:
    """PKU VehicleID: one random image of each test vehicle is the gallery, for ten random galleries.

    Args:
        data_dir: folder with `VehicleID_V1.0`, or that folder itself.
        size: test list: `small` (800 vehicles), `medium` (1,600) or `large` (2,400).
    """
    folder, _ = VEHICLEID.find(data_dir)
    vehicles, images = SIZES[size]
    train = _read(folder, TRAIN_LIST)
    test = _read(folder, f"train_test_split/test_list_{vehicles}.txt")
    VEHICLEID.check_counts("train", train, images=113346, classes=13164)
    VEHICLEID.check_counts(f"{size} test", test, images=images, classes=vehicles)
    return Dataset("vehicleid", train, test, protocol="random_gallery(metrics=('recall_at_1', 'recall_at_5'))")


def _read(folder, name):
    names, vehicles = read_list(folder / name, image=str, vehicle_id=int)
    images = [f"{folder}/image/{image}.jpg" for image in names]
    return Split(np.array(images, dtype=object), np.array(vehicles, np.int64))
