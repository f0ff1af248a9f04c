"""Stanford Online Products."""

import numpy as np

from pipelines.dataset import DataDir, Dataset, Split
from pipelines.datasets.csv import read_list
from pipelines.datasets.published import Published
from tfdml.registry import register

SOP = Published(
    name="sop",
    page="https://cvgl.stanford.edu/projects/lifted_struct/",
    folder="Stanford_Online_Products",
    layouts=(("Ebay_train.txt", "Ebay_test.txt"),),
    archives={"Stanford_Online_Products.zip": "Stanford_Online_Products"},
)

METRICS = (*(f"recall_at_{k}" for k in (1, 10, 100, 1000)), "r_precision", "map_at_r", "nmi", "f1")


@register("dataset", "sop")
def sop(data_dir: DataDir) -> Dataset:
    """Loads Stanford Online Products, 120,053 images of 22,634 products, with the authors' division of the products.

    The class hierarchy has the level `category`, for `--levels`.

    Args:
        data_dir: Folder with `Stanford_Online_Products`, or that folder itself.
    """
    folder, _ = SOP.find(data_dir)
    train, test = (_read(folder, f"Ebay_{part}.txt") for part in ("train", "test"))
    SOP.check_counts("train", train, images=59551, classes=11318)
    SOP.check_counts("test", test, images=60502, classes=11316)
    return Dataset("sop", train, test, protocol=f"self_retrieval(metrics={METRICS})")


def _read(folder, name):
    columns = {"image_id": int, "class_id": int, "super_class_id": int, "path": str}
    _, labels, _, paths = read_list(folder / name, header=1, **columns)
    # The category of "chair_final/1.JPG" is "chair".
    categories = (path.partition("/")[0].removesuffix("_final") for path in paths)
    levels = {"category": dict(zip(labels, categories, strict=True))}
    # Paths are joined as text, because creating 100,000 Path objects needs a second.
    images = np.array([f"{folder}/{path}" for path in paths], dtype=object)
    return Split(images, np.array(labels, np.int64), levels=levels)
