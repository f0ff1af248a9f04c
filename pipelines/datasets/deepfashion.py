"""DeepFashion attributes: Category and Attribute Prediction Benchmark."""

import logging
from typing import Literal

import numpy as np

from pipelines.dataset import DataDir, Dataset, Split
from pipelines.datasets.csv import read_list
from pipelines.datasets.published import Published
from tfdml.files.checked import open_file
from tfdml.registry import register

FOLDER = "Category and Attribute Prediction Benchmark"
PARTITION, OF_IMAGES, NAMES = "Eval/list_eval_partition.txt", "list_attr_img.txt", "list_attr_cloth.txt"
DEEPFASHION = Published(
    name="deepfashion",
    page="https://mmlab.ie.cuhk.edu.hk/projects/DeepFashion/AttributePrediction.html",
    folder=FOLDER,
    layouts=tuple(
        (PARTITION, f"{notes}/{OF_IMAGES}", f"{notes}/{NAMES}", images)
        for notes in ("Anno_coarse", "Anno")
        for images in ("Img/img", "img")
    ),
    archives={"Img/img.zip": "Img/img", "img.zip": "img"},
)
# Kinds of attributes in the order of their numbers in the file, which start at 1.
KINDS = ("texture", "fabric", "shape", "part", "style")
IMAGES = {"train": 209222, "test": 40000}


@register("dataset", "deepfashion")
def deepfashion(
    data_dir: DataDir, kind: Literal["all", "texture", "fabric", "shape", "part", "style"] = "all"
) -> Dataset:
    """Loads the multi-label clothes images of DeepFashion Category and Attribute Prediction.

    Training and test images are the ones of the authors' split, without images that have no attribute. Their validation
    images are not used.

    Args:
        data_dir: Folder with `Eval`, `Img` and either `Anno_coarse` or `Anno`, or the folder that contains it.
        kind: Kind of attributes to use: `"all"`, `"texture"`, `"fabric"`, `"shape"`, `"part"` or `"style"`. Defaults to
            `"all"`.
    """
    folder, (_, of_images, names, images) = DEEPFASHION.find(data_dir)
    attributes = _names(folder / names)
    chosen = [place for place, (_, number) in enumerate(attributes) if kind in ("all", KINDS[number - 1])]
    paths, parts = read_list(folder / PARTITION, header=2, image_name=str, evaluation_status=str)
    having = _read(folder / of_images, chosen, len(attributes))
    missing = [path for path in paths if path not in having]
    if missing:
        raise ValueError(
            f"{folder / of_images} lacks {len(missing)} images of {PARTITION}, for example {missing[0]!r}. Download "
            "the dataset again."
        )
    # Names in the lists start with img/, wherever that folder is.
    above, parts = (folder / images).parent, np.array(parts)
    matrix = np.zeros((len(paths), len(chosen)), bool)
    for row, path in enumerate(paths):
        matrix[row, having[path]] = True
    files = np.array([f"{above}/{path}" for path in paths], dtype=object)
    named = tuple(attributes[place][0] for place in chosen)
    rows = Split(files, np.arange(len(files)), attributes=matrix, attribute_names=named)
    splits = []
    for part, images in IMAGES.items():
        split = rows.where(parts == part)
        DEEPFASHION.check_counts(part, split, images=images, classes=images)
        labeled = split.attributes.any(axis=1)
        if not labeled.all():
            message = "deepfashion, %s: %d images without attributes are skipped."
            logging.getLogger(__name__).info(message, part, np.sum(~labeled))
        splits.append(split.where(labeled))
    return Dataset("deepfashion", *splits, "several_labels")


def _names(path):
    """Returns `[(name, number of its kind), ...]`. A name may contain spaces, so the number is last."""
    (lines,) = read_list(path, header=2, line=str)
    words_of_lines = [line.rsplit(maxsplit=1) for line in lines]
    for line, words in zip(lines, words_of_lines, strict=True):
        if len(words) != 2 or words[1] not in map(str, range(1, len(KINDS) + 1)):
            raise ValueError(
                f"{path} is not valid. Expected <attribute_name> <attribute_type>, with a type from 1 to 5. Received: "
                f"{line!r}."
            )
    return [(name, int(number)) for name, number in words_of_lines]


def _read(path, chosen, count):
    """Returns, for each image name, the positions of its attributes among the chosen ones."""
    having, wanted = {}, np.array(chosen, np.int64)
    with open_file(path) as file:
        for number, line in enumerate(file, 1):
            name, *values = line.split() or [b""]
            if number <= 2 or not name:
                continue
            if len(values) != count:
                raise ValueError(f"{path}, line {number}: expected {count} attributes. Received: {len(values)}.")
            having[name.decode()] = np.flatnonzero(np.array(values)[wanted] == b"1")
    return having
