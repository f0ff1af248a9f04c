"""The command line and the table that the datasets of the studies share."""

import argparse
import csv
import sys
from pathlib import Path


def put_together(about, source, source_help, write_set, expected):
    """Runs a command that writes a dataset into a new folder and checks whether it is the dataset of the studies.

    Args:
        about: Description of the command.
        source: Name of the flag for the path of the source images, such as `sources`.
        source_help: Help text of that flag.
        write_set: Function that writes the dataset. Its arguments are the source path and the new folder. It returns
            the numbers of images and classes, and a checksum.
        expected: Checksum of the dataset of the studies.
    """
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(f"--{source}", required=True, type=Path, help=source_help, dest="source")
    parser.add_argument("--out", required=True, type=Path, help="New folder for the dataset.")
    arguments = parser.parse_args()
    if arguments.out.exists():
        sys.exit(f"--out={arguments.out} already exists. Use a new folder.")
    images, classes, checksum = write_set(arguments.source, arguments.out)
    print(f"Wrote {images:,} images of {classes:,} classes to {arguments.out}.")
    if checksum != expected:
        sys.exit(
            f"They differ from the dataset of the studies. Expected the checksum {expected}. Received: {checksum}."
        )
    print("Their pixels and splits are the same as in the studies.")


def write_table(path, columns, rows):
    """Writes `classes.csv`, the table of the classes of a dataset."""
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(rows)
