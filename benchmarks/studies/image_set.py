"""Puts a set of images together: the command line that sets of studies have in common, and their table."""

import argparse
import csv
import sys
from pathlib import Path


def put_together(about, source, source_help, write_set, expected):
    """A command line that writes a set into a new folder, and says whether it is that of the studies.

    Args:
        about: what it says of itself.
        source: name of the flag that says where the images come from, such as `sources`.
        source_help: help of that flag.
        write_set: function of that path and of the new folder that writes the set, and returns the numbers of images
            and classes, and a checksum.
        expected: checksum of the set of the studies.
    """
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(f"--{source}", required=True, type=Path, help=source_help, dest="source")
    parser.add_argument("--out", required=True, type=Path, help="folder of the set; must not exist")
    arguments = parser.parse_args()
    if arguments.out.exists():
        sys.exit(f"--out={arguments.out} exists; give a new folder.")
    images, classes, checksum = write_set(arguments.source, arguments.out)
    print(f"Wrote {images:,} images of {classes:,} classes to {arguments.out}.")
    if checksum != expected:
        sys.exit(f"They are not those of the studies, in pixels or parts: checksum {checksum}, expected {expected}.")
    print("Their pixels, and the parts that they are in, are those of the studies.")


def write_table(path, columns, rows):
    """Writes `classes.csv`, the table of a set's classes."""
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(rows)
