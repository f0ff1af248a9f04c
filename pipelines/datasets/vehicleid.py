"""PKU VehicleID."""

from typing import Literal

import numpy as np

from pipelines.dataset import DataDir, Dataset, Split
from pipelines.datasets.csv import read_list
from pipelines.datasets.published import Published
from tfdml.registry import register

TRAIN_LIST = "train_test_split/train_list.txt"
# Size to the number of vehicles, which is in the name of the test list, and to the number of images in the list. The
# published lists differ from the counts in the paper.
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
    """Loads PKU VehicleID, evaluated with ten random galleries that have one image of each test vehicle.

    Args:
        data_dir: Folder with `VehicleID_V1.0`, or that folder itself.
        size: Test list: `"small"` (800 vehicles), `"medium"` (1,600) or `"large"` (2,400). Defaults to `"small"`.
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
