"""iNaturalist 2018."""

import numpy as np

from pipelines.dataset import DataDir, Dataset, Split
from pipelines.datasets.csv import read_list
from pipelines.datasets.published import Published
from tfdml.files.checked import json_of, read_bytes
from tfdml.registry import register

IMAGES, SPLITS, CATEGORIES = "train_val2018", "Inat_dataset_splits", "categories.json"
LISTS = {part: f"{SPLITS}/Inaturalist_{part}_set1.txt" for part in ("train", "test")}
INATURALIST = Published(
    name="inaturalist2018",
    page="https://github.com/visipedia/inat_comp (2018), and its splits from https://github.com/Andrew-Brown1/Smooth_AP",
    folder="inaturalist2018",
    layouts=((*LISTS.values(), IMAGES),),
    archives={"train_val2018.tar.gz": IMAGES, f"{SPLITS}.zip": SPLITS},
)
# Rank in the file to the name of the level. The level `class` already means the classes of the dataset.
RANKS = {"kingdom": "kingdom", "phylum": "phylum", "class": "taxonomic_class", "order": "order", "family": "family"}
RANKS |= {"genus": "genus"}
METRICS = (*(f"recall_at_{k}" for k in (1, 4, 16, 32)), "map_at_r")


@register("dataset", "inaturalist2018")
def inaturalist2018(data_dir: DataDir) -> Dataset:
    """Loads iNaturalist 2018: 461,939 images of 8,142 species, with the training and test species of Smooth-AP.

    The class hierarchy has the levels `supercategory`, `kingdom`, `phylum`, `taxonomic_class`, `order`, `family` and
    `genus`, for `--levels`. Levels other than `supercategory` need the authors' `categories.json` next to the images.

    Args:
        data_dir: Folder with `train_val2018` and `Inat_dataset_splits`, or the folder that contains it as
            `inaturalist2018`.
    """
    folder, _ = INATURALIST.find(data_dir)
    about = _categories(folder / CATEGORIES)
    train, test = (_read(folder, folder / LISTS[part], *about) for part in ("train", "test"))
    INATURALIST.check_counts("train", train, images=325846, classes=5690)
    INATURALIST.check_counts("test", test, images=136093, classes=2452)
    return Dataset("inaturalist2018", train, test, protocol=f"self_retrieval(metrics={METRICS})")


def _read(folder, path, names, ranks):
    (paths,) = read_list(path, path=str)
    parts = [name.split("/") for name in paths]
    wrong = [name for name, part in zip(paths, parts, strict=True) if len(part) != 4 or not part[2].isdecimal()]
    if wrong:
        raise ValueError(
            f"{path} is not valid. Expected {IMAGES}/<supercategory>/<number>/<image>. Received: {wrong[0]!r}."
        )
    labels = np.array([int(part[2]) for part in parts], np.int64)
    levels = {"supercategory": {int(part[2]): part[1] for part in parts}, **ranks}
    return Split(np.array([f"{folder}/{name}" for name in paths], object), labels, names, levels=levels)


def _categories(path):
    """Returns the names of species by number, and the categories by level; None and an empty dictionary without it."""
    if not path.is_file():
        return None, {}
    try:
        found = json_of(read_bytes(path))
        names = {each["id"]: each["name"] for each in found}
        return names, {level: {each["id"]: each[rank] for each in found} for rank, level in RANKS.items()}
    except (ValueError, TypeError, LookupError) as error:
        raise ValueError(
            f"{path} is not valid ({error!r}). Expected a list of categories with id, name, {', '.join(RANKS)}. "
            "Download it again."
        ) from None
