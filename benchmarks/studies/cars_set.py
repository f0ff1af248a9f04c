"""Creates half of Cars196 as in the studies: `python -m benchmarks.studies.cars_set --source=checkout --out=data/cars`.

Each class is a car model, and its images are the official training photos of Stanford Cars, cropped to the bounding
boxes of the cars. A public repository, which docs/datasets.md names, has these crops and the number of each one's
class. The result is a dataset `folder` with a table `classes.csv`. The last line of the output shows whether its pixels
are the same as in the studies.
"""

import hashlib
import sys

import numpy as np
from PIL import Image
from scipy.io import loadmat

from benchmarks.studies.image_set import put_together, write_table

SIDE = 128  # pixels of the shorter side, unless the crop is smaller
QUALITY = 88
TRAINING_CLASSES = 98
COLUMNS = ("split", "class", "name", "maker", "n")
IMAGES, CLASSES, NAMES = "cars_train", "train_perfect_preds.txt", "cars_meta.mat"
# Checksum of all paths and pixels, image by image.
CHECKSUM = "366957c23b7e2cae1d8bdb2b61d1ce82c17e720dadb02d55d9b8f9d3c6aa9fc9"


def main():
    put_together(__doc__, "source", "folder of the checkout", write_set, CHECKSUM)


def write_set(source, out):
    """Writes the images and the table, and returns the numbers of images and classes and a checksum."""
    for name in (IMAGES, CLASSES, NAMES):
        if not (source / name).exists():
            sys.exit(f"{source / name} does not exist. Check out the repository that docs/datasets.md names.")
    names = [str(name) for name in loadmat(source / NAMES, squeeze_me=True)["class_names"]]
    classes = [int(line) for line in (source / CLASSES).read_text(encoding="utf-8").split()]
    counts, checksum = dict.fromkeys(range(1, len(names) + 1), 0), hashlib.sha256()
    for number, label in enumerate(classes, 1):
        name = f"{number:05}.jpg"
        path = f"{_split(label)}/{label:03}/{name}"
        (out / path).parent.mkdir(parents=True, exist_ok=True)
        shrunk(source / IMAGES / name).save(out / path, quality=QUALITY)
        with Image.open(out / path) as image:
            checksum.update(path.encode() + image.tobytes())
        counts[label] += 1
    rows = [
        [_split(label), f"{label:03}", name, _maker(name), count]
        for (label, count), name in zip(counts.items(), names, strict=True)
    ]
    write_table(out / "classes.csv", COLUMNS, rows)
    return len(classes), len(names), checksum.hexdigest()


def shrunk(path):
    """Returns a crop of the repository with at most `SIDE` pixels on its shorter side."""
    with Image.open(path) as image:
        # The repository has stored the channels in the order of OpenCV: blue, green, red.
        image = Image.fromarray(np.ascontiguousarray(np.asarray(image.convert("RGB"))[..., ::-1]))
    scale = SIDE / min(image.size)
    if scale >= 1:
        return image
    return image.resize([round(side * scale) for side in image.size], Image.Resampling.LANCZOS)


def _split(label):
    return "train" if label <= TRAINING_CLASSES else "test"


def _maker(name):
    """Returns the first word of a car's name, which no two makers share."""
    return name.split()[0]


if __name__ == "__main__":
    main()
