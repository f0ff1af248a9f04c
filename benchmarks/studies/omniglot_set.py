"""Creates the Omniglot dataset: `python -m benchmarks.studies.omniglot_set --source=omniglot --out=data/omniglot`.

Each class is a character, and its images are the drawings of twenty people, black on white, with 105 × 105 pixels. They
are in two archives of the Omniglot repository, which docs/datasets.md names. The result is a dataset `folder` with a
table `classes.csv`. The last line of the output shows whether its pixels are the same as in the studies.
"""

import hashlib
import sys
import zipfile
from pathlib import PurePosixPath

from PIL import Image

from benchmarks.studies.image_set import put_together, write_table

# Five alphabets each. Greek and Latin are the same in both.
ARCHIVES = ("images_background_small1.zip", "images_background_small2.zip")
# Whole alphabets, so that no alphabet is in both splits.
TEST_ALPHABETS = {"Korean", "Latin", "Sanskrit", "Tagalog"}
NOT_IN_NAMES = str.maketrans("", "", "()")
COLUMNS = ("split", "class", "group")
# Checksum of all files and pixels, class by class.
CHECKSUM = "caad1ae5fb6d030d16d04ce3dfc83487ef3d52153343240db5001a4df1340e03"


def main():
    put_together(__doc__, "source", "folder of the checkout", write_set, CHECKSUM)


def write_set(source, out):
    """Writes the images and the table, and returns the numbers of images and classes and a checksum."""
    images, classes, checksum = drawings_of(source), {}, hashlib.sha256()
    for path in sorted(images):
        (out / path.parent).mkdir(parents=True, exist_ok=True)
        (out / path).write_bytes(images[path])
        with Image.open(out / path) as image:
            checksum.update(path.as_posix().encode() + image.convert("L").tobytes())
        split, name, _ = path.parts
        classes[split, name] = name.partition("__")[0]
    write_table(out / "classes.csv", COLUMNS, [[*key, alphabet] for key, alphabet in classes.items()])
    return len(images), len(classes), checksum.hexdigest()


def drawings_of(source):
    """Returns the contents of each drawing by its path in the dataset, `split/alphabet__character/file.png`."""
    drawings = {}
    for name in ARCHIVES:
        archive = source / "python" / name
        if not archive.is_file():
            sys.exit(f"The file {archive} does not exist. Check out the repository that docs/datasets.md names.")
        with zipfile.ZipFile(archive) as archived:
            for entry in map(PurePosixPath, archived.namelist()):
                if entry.suffix == ".png":
                    alphabet, character = (part.translate(NOT_IN_NAMES) for part in entry.parts[1:3])
                    split = "test" if alphabet in TEST_ALPHABETS else "train"
                    path = PurePosixPath(split, f"{alphabet}__{character}", entry.name)
                    drawings[path] = archived.read(str(entry))
    return drawings


if __name__ == "__main__":
    main()
