"""Puts the Omniglot set together: `python -m benchmarks.studies.omniglot_set --source=omniglot --out=data/omniglot`.

A class is a character, its images are the drawings of twenty people, black on white, 105 × 105 pixels. They are in two
archives of Omniglot's repository, which docs/omniglot.md names. The set is a dataset `folder` with a table
`classes.csv`; the last line says whether its pixels are those of the studies.
"""

import hashlib
import sys
import zipfile
from pathlib import PurePosixPath

from PIL import Image

from benchmarks.studies.image_set import put_together, write_table

# Five alphabets each, of which Greek and Latin are the same in both.
ARCHIVES = ("images_background_small1.zip", "images_background_small2.zip")
# Whole alphabets, so that no alphabet is in both parts.
TEST_ALPHABETS = {"Korean", "Latin", "Sanskrit", "Tagalog"}
NOT_IN_NAMES = str.maketrans("", "", "()")
COLUMNS = ("split", "class", "group")
# Of all files and pixels, class by class.
CHECKSUM = "caad1ae5fb6d030d16d04ce3dfc83487ef3d52153343240db5001a4df1340e03"


def main():
    put_together(__doc__, "source", "folder of the checkout", write_set, CHECKSUM)


def write_set(source, out):
    """Writes the images and the table; gives the numbers of images and classes, and a checksum of all of it."""
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
    """The contents of each drawing by its path in the set, `split/alphabet__character/file.png`."""
    drawings = {}
    for name in ARCHIVES:
        archive = source / "python" / name
        if not archive.is_file():
            sys.exit(f"There is no file {archive}; docs/omniglot.md says which repository to check out.")
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
