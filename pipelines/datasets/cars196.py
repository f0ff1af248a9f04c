"""Stanford Cars (Cars196) in either of its two published layouts, with makes and body types."""

import zlib

import numpy as np

from pipelines.dataset import DataDir, Dataset, Split
from pipelines.datasets.published import Published
from tfdml.files.checked import reason_of
from tfdml.registry import register

# Makes with two words. For all others, the make is the first word.
MAKES = ("AM General", "Aston Martin", "Land Rover")
# Body types, which are the last word before the year. Crew, club and other cabs are pickups.
BODIES = ("Sedan", "SUV", "Coupe", "Convertible", "Hatchback", "Wagon", "Minivan", "Van", "Cab")
PICKUP, OTHER = "Pickup", "Other"


def car_levels(names):
    """Returns the make, body and model (the class) of each class label from names such as "Audi S4 Sedan 2012"."""
    makes, bodies = {}, {}
    for label, name in names.items():
        makes[label] = next((make for make in MAKES if name.startswith(make)), name.partition(" ")[0])
        word = name.split()[-2] if " " in name.strip() else ""
        bodies[label] = PICKUP if word == "Cab" else word if word in BODIES else OTHER
    return {"make": makes, "body": bodies, "model": dict(names)}


ONE_FOLDER = ("cars_annos.mat", "car_ims")
TWO_FOLDERS = ("devkit/cars_train_annos.mat", "cars_train", "cars_test")
TEST_LABELS = "cars_test_annos_withlabels.mat"
CARS196 = Published(
    name="cars196",
    page="https://ai.stanford.edu/~jkrause/cars/car_dataset.html (its links are dead; mirrors have the same files)",
    folder="stanford_cars",
    layouts=(ONE_FOLDER, (*TWO_FOLDERS, TEST_LABELS), (*TWO_FOLDERS, f"devkit/{TEST_LABELS}")),
    archives={
        "car_ims.tgz": "car_ims",
        "cars_train.tgz": "cars_train",
        "cars_test.tgz": "cars_test",
        "car_devkit.tgz": "devkit",
        "stanford_cars.zip": "stanford_cars",
    },
)

# Errors that SciPy raises for truncated or damaged MATLAB files.
DAMAGE = (OSError, ValueError, TypeError, ArithmeticError, LookupError, NotImplementedError, EOFError, zlib.error)


@register("dataset", "cars196")
def cars196(data_dir: DataDir, cropped: bool = False) -> Dataset:
    """Loads Stanford Cars (Cars196), 16,185 images of 196 car models, with the first half of the models for training.

    The class hierarchy has the levels `make`, `body` and `model`, for `--levels`.

    Args:
        data_dir: Folder with `car_ims` and `cars_annos.mat`, or with `cars_train`, `cars_test` and `devkit`.
        cropped: Boolean. Whether to crop each image to the car's bounding box. Defaults to `False`.
    """
    folder, layout = CARS196.find(data_dir)
    if layout == ONE_FOLDER:
        parts = [(folder / "cars_annos.mat", folder, "relative_im_path")]
    else:
        parts = [
            (folder / layout[0], folder / "cars_train", "fname"),
            (folder / layout[3], folder / "cars_test", "fname"),
        ]
    rows = [_read(*part) for part in parts]
    images, labels, boxes = (np.concatenate(column) for column in zip(*rows, strict=True))
    # One layout stores the class names with the annotations, the other one in a separate file.
    meta = folder / "devkit" / "cars_meta.mat"
    found = _load(meta if meta.is_file() else parts[0][0]).get("class_names")
    names = None if found is None else {number: str(name) for number, name in enumerate(np.atleast_1d(found), 1)}
    both = Split(images, labels, names, boxes=boxes if cropped else None, levels=names and car_levels(names))
    train, test = both.halves()
    CARS196.check_counts("train", train, images=8054, classes=98)
    CARS196.check_counts("test", test, images=8131, classes=98)
    return Dataset("cars196", train, test)


def _read(annotations, images_folder, name_field):
    """Reads paths, labels and boxes from an annotation file."""
    fields = (name_field, "class", "bbox_x1", "bbox_y1", "bbox_x2", "bbox_y2")
    rows = np.atleast_1d(_load(annotations).get("annotations", np.zeros(0)))
    missing = sorted(set(fields) - set(rows.dtype.names or ()))
    if missing:
        raise ValueError(
            f"The annotations in {annotations} lack {', '.join(missing)}. Expected the file with the classes, which is "
            f"{TEST_LABELS} for the test images."
        )
    paths = np.array([str(images_folder / str(name)) for name in rows[name_field]], dtype=object)
    try:
        labels, *boxes = (rows[field].astype(np.int64) for field in fields[1:])
    except (ValueError, TypeError) as error:
        raise ValueError(f"Classes and boxes in {annotations} must be numbers ({error}). Download it again.") from None
    # The file counts pixels from 1, and its boxes include the last pixel.
    return paths, labels, (np.stack(boxes, axis=1) - [1, 1, 0, 0]).astype(np.int32)


def _load(path):
    from scipy.io import loadmat
    from scipy.io.matlab import MatReadError

    try:
        return loadmat(path, squeeze_me=True)
    except (*DAMAGE, MatReadError) as error:
        raise ValueError(f"{path} is not a readable MATLAB file ({reason_of(error)}). Download it again.") from None
