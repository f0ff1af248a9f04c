"""Creates our split of In-shop Clothes: `python -m benchmarks.studies.inshop_set --source=img --out=data/inshop_half`.

Each class is an item of clothing, with 1 to 100 photos. The first half of the items, by their numbers, is for training,
the second half for the test. A seed draws half of the images of each test item as queries, and the others are the
gallery. The official list of items and queries was not available, so results cannot be compared with papers.

The result has images of 128 × 128 pixels and a table `images.csv` for the dataset `csv`. The last line of the output
shows whether the names and the contents of the images are the same as in our studies.
"""

import hashlib

import numpy as np
from PIL import Image

from benchmarks.studies.image_set import put_together, write_table

SIZE = 128
QUALITY = 95
SEED = 0
COLUMNS = ("path", "label", "split", "is_query", "is_gallery")
# Checksum of the names and the contents of all files.
CHECKSUM = "4bac98006ed04f47a41c6b1bcc370c3f30ab36626f2dd06f9bdee20f65f3fce6"


def main():
    put_together(__doc__, "source", "folder img with the folders MEN and WOMEN", write_set, CHECKSUM)


def write_set(source, out):
    """Writes the images and the table, and returns the numbers of images and classes and a checksum."""
    # An item with two kinds of clothing has two folders.
    paths = sorted(path.relative_to(source) for path in source.glob("*/*/id_*/*.jpg"))
    checksum = hashlib.sha256()
    for path in paths:
        data = (source / path).read_bytes()
        checksum.update(path.as_posix().encode() + hashlib.sha256(data).digest())
        (out / path.parent).mkdir(parents=True, exist_ok=True)
        with Image.open(source / path) as image:
            image.convert("RGB").resize((SIZE, SIZE), Image.Resampling.LANCZOS).save(out / path, quality=QUALITY)
    items = [path.parent.name for path in paths]
    write_table(out / "images.csv", COLUMNS, rows_of(paths, items))
    return len(paths), len(set(items)), checksum.hexdigest()


def rows_of(paths, items):
    """Yields the rows of the table: path, item, split, and whether a test image is a query or in the gallery."""
    names = sorted(set(items))
    train, random = set(names[: len(names) // 2]), np.random.default_rng(SEED)
    images = {name: [] for name in names}
    for path, item in zip(paths, items, strict=True):
        images[item].append(path)
    for name, of_item in images.items():
        queries = set(random.permutation(len(of_item))[: len(of_item) // 2].tolist())
        for place, path in enumerate(of_item):
            split = "train" if name in train else "test"
            yield path.as_posix(), name, split, int(place in queries), int(place not in queries)


if __name__ == "__main__":
    main()
