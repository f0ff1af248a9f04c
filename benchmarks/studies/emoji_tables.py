"""Writes tables for the images of the emoji dataset: `python -m benchmarks.studies.emoji_tables --data_dir=data/emoji`.

`pairs.csv` has two pairs for each image: one with another drawing of the same emoji, and one with a drawing of another
emoji. `tags.csv` has three labels for each image: its emoji, its subgroup and its group. Both use the splits of the
dataset.
"""

import argparse
import csv
import random
from pathlib import Path

from benchmarks.studies.image_set import write_table


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--data_dir", required=True, type=Path, help="Folder of the dataset, to which the tables are added."
    )
    folder = parser.parse_args().data_dir
    classes = _classes_of(folder)
    write_table(folder / "pairs.csv", ("a", "b", "same", "split"), _pairs(classes))
    write_table(folder / "tags.csv", ("path", "label", "split"), _tags(classes))
    print(f"Wrote pairs.csv and tags.csv to {folder}.")


def _classes_of(folder):
    """Returns the rows of `classes.csv`, each with the paths of its images."""
    with open(folder / "classes.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        images = sorted((folder / row["split"] / row["class"]).glob("*.png"))
        row["images"] = [image.relative_to(folder).as_posix() for image in images]
    return rows


def _pairs(classes):
    draws = random.Random(0)
    for row in classes:
        others = [other for other in classes if other["split"] == row["split"] and other is not row]
        for image in row["images"]:
            same = draws.choice([other for other in row["images"] if other != image])
            yield image, same, 1, row["split"]
            yield image, draws.choice(draws.choice(others)["images"]), 0, row["split"]


def _tags(classes):
    for row in classes:
        for image in row["images"]:
            yield image, "|".join((row["class"], row["subgroup"], row["group"])), row["split"]


if __name__ == "__main__":
    main()
