"""DeepFashion In-shop Clothes Retrieval."""

import dataclasses

import numpy as np

from pipelines.dataset import DataDir, Dataset, Split
from pipelines.datasets.csv import read_list
from pipelines.datasets.published import Published
from tfdml.registry import register

FOLDER = "In-shop Clothes Retrieval Benchmark"
LIST = "list_eval_partition.txt"
INSHOP = Published(
    name="inshop",
    page="https://mmlab.ie.cuhk.edu.hk/projects/DeepFashion/InShopRetrieval.html",
    folder=FOLDER,
    layouts=((f"Eval/{LIST}", "Img/img"), (f"Eval/{LIST}", "img"), (LIST, "img")),
    archives={f"{FOLDER}.zip": f"{FOLDER}/Eval/{LIST}", "Img/img.zip": "Img/img", "img.zip": "img"},
)
# The metrics that papers report, which do not include F1.
METRICS = (*(f"recall_at_{k}" for k in (1, 10, 20, 30, 40, 50)), "r_precision", "map_at_r", "nmi")
STATUSES = ("train", "query", "gallery")


@register("dataset", "inshop")
def inshop(data_dir: DataDir) -> Dataset:
    """Loads DeepFashion In-shop Clothes Retrieval with the authors' training, query and gallery images.

    Args:
        data_dir: Folder with `Eval` and `Img`, or the folder that contains it.
    """
    folder, (partition, images_folder) = INSHOP.find(data_dir)
    path = folder / partition
    names, items, statuses = read_list(path, header=2, image_name=str, item_id=str, evaluation_status=str)
    unknown = sorted(set(statuses) - set(STATUSES))
    if unknown:
        raise ValueError(
            f"evaluation_status in {path} must be one of {', '.join(STATUSES)}. Received: {unknown[0]!r}. Download it "
            "again."
        )
    # Names in the list start with img/, wherever that folder is.
    above = (folder / images_folder).parent
    images = np.array([f"{above}/{name}" for name in names], dtype=object)
    known, labels = np.unique(items, return_inverse=True)
    status = np.array(statuses)
    rows = Split(images, labels.astype(np.int64), {number: str(item) for number, item in enumerate(known)})
    parts = {name: rows.where(status == name) for name in STATUSES}
    for name, count, classes in (("train", 25882, 3997), ("query", 14218, 3985), ("gallery", 12612, 3985)):
        INSHOP.check_counts(name, parts[name], images=count, classes=classes)
    tests = status != "train"
    marks = {f"is_{name}": status[tests] == name for name in ("query", "gallery")}
    test = dataclasses.replace(rows.where(tests), **marks)
    return Dataset("inshop", parts["train"], test, protocol=f"query_gallery(metrics={METRICS})")
