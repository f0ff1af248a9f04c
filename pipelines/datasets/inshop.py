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
# As the tables of papers; F1 is not among them.
METRICS = (*(f"recall_at_{k}" for k in (1, 10, 20, 30, 40, 50)), "r_precision", "map_at_r", "nmi")
STATUSES = ("train", "query", "gallery")


@register("dataset", "inshop")
def inshop(data_dir: DataDir) -> Dataset:
    """In-shop Clothes: queries are searched in a gallery, as its authors divide them.

    Args:
        data_dir: folder with `Eval` and `Img`, or the folder that holds it.
    """
    folder, (partition, images_folder) = INSHOP.find(data_dir)
    path = folder / partition
    names, items, statuses = read_list(path, header=2, image_name=str, item_id=str, evaluation_status=str)
    unknown = sorted(set(statuses) - set(STATUSES))
    if unknown:
        raise ValueError(f"{path}: expected the evaluation_status {', '.join(STATUSES)}; received {unknown[0]!r}.")
    # Names in the list begin with img/, wherever that lies.
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
