"""Your own images in a CSV table, and the text lists of published datasets."""

import dataclasses
import logging
import os
from pathlib import Path

import numpy as np

from pipelines.boxes import COLUMNS, box_of_row, check_units, has_boxes, split_boxes
from pipelines.captions import SEPARATOR, as_column
from pipelines.dataset import Dataset, Split, TestClasses
from pipelines.labels import MARKS, SPLITS, TRUTHS, Undivided, class_numbers_of, read_table, several_labels, table_path
from tfdml.registry import register
from tfdml.registry.arguments import FilePath, Seed, Text

NEEDED = ("path", "label", "split")
KNOWN = (*NEEDED, "camera", "group", "caption", *MARKS, *COLUMNS)


@register("dataset", "csv")
def csv(
    path: FilePath,
    data_dir: FilePath | None = None,
    test_classes: TestClasses | None = None,
    seed: Seed = 0,
    separator: Text | None = None,
) -> Dataset:
    """Loads your own images from a CSV table with the columns `path`, `label` and `split` (train or test).

    The optional columns `camera` and `group` are integers or text. For a query, gallery images of its class with the
    same camera or group are ignored. The optional columns `is_query` and `is_gallery` mark test images. The optional
    column `caption` has one or several texts about the image, separated by `|`. The optional columns `x1`, `y1`, `x2`
    and `y2` are the corners of a box to which the upright image is cropped, in pixels or as fractions of its width and
    height. An image with several objects has one row per box.

    Args:
        path: Path of the table, in UTF-8, with commas and a header. It may be relative to `data_dir`.
        data_dir: Folder to which the paths in the table are relative. If `None`, it is the folder of the table.
            Defaults to `None`.
        test_classes: Float or `None`. Fraction of the classes to test on, for example 0.3, for a table without the
            column `split`. If `None`, the column is used. Defaults to `None`.
        seed: Integer. Determines the test classes. Defaults to `0`.
        separator: Text or `None`. Separator between the labels of a multi-label image, for example `";"`. If `None`,
            each image has one label. Defaults to `None`.
    """
    if separator and test_classes is not None:
        raise ValueError(
            "test_classes cannot be used with separator, because multi-label images are not divided by class. Remove "
            "test_classes and add a column split to the table."
        )
    table = table_path(path, data_dir)
    rows, lines = _read(table, NEEDED if test_classes is None else NEEDED[:-1])
    base = Path(data_dir).expanduser() if data_dir else table.parent
    images = [os.path.normpath(os.path.join(base, row["path"])) for row in rows]
    if not os.path.exists(images[0]) and os.path.exists(rows[0]["path"]):
        # Paths that are relative to the working directory are a common mistake.
        raise FileNotFoundError(
            f"{table} lists {rows[0]['path']!r}, which exists in the working directory but not in {base}, to which the "
            "paths are relative. To make them relative to the working directory, pass data_dir='.', or --data_dir=. on "
            "the command line."
        )
    columns = {
        "images": np.array(images, dtype=object),
        "cameras": _shared(rows, "camera"),
        "groups": _shared(rows, "group"),
    }
    if "caption" in rows[0]:
        columns["captions"] = _captions(table, rows, lines)
    for name in [name for name in MARKS if name in rows[0]]:
        for row, line in zip(rows, lines, strict=True):
            if row[name].lower() not in TRUTHS:
                raise ValueError(f"{table}, line {line}: {name} must be 1 or 0. Received: {row[name]!r}.")
        columns[name] = np.array([TRUTHS[row[name].lower()] for row in rows])
    if has_boxes(rows[0], table):
        boxes = [box_of_row(row, f"{table}, line {line}") for row, line in zip(rows, lines, strict=True)]
        check_units(boxes, table)
        columns["boxes"] = split_boxes(images, boxes, lambda row: f"{table}, line {lines[row]}")
    texts, about = [row["label"] for row in rows], {"protocol": "query_gallery", "look_inside": True}
    if separator:
        named = several_labels(texts, separator, lambda number: f"{table}, line {lines[number]}")
        columns |= {"labels": np.arange(len(rows)), "attributes": named[0], "attribute_names": named[1]}
        about["protocol"], class_names = "several_labels", None
    else:
        columns["labels"], class_names = class_numbers_of(texts)
    both = Split(class_names=class_names, **columns)
    if test_classes is not None:
        return Undivided(both, test_classes, seed).divide("csv", **about)
    part = np.array([row["split"] for row in rows])
    if "test" not in part:
        raise ValueError(f"{table} has no test images. Expected rows with the split test.")
    train, test = (both.where(part == name) for name in SPLITS)
    train = dataclasses.replace(train, **MARKS) if len(train) else None
    return Dataset("csv", train, test, **about)


def _read(table, needed):
    """Returns the rows as dictionaries, and the line of each."""
    try:
        _, found = read_table(table, lambda header: _check_header(table, header, needed))
    except FileNotFoundError:
        raise FileNotFoundError(
            f"The table {table} does not exist. Expected a CSV file with the columns {','.join(NEEDED)}."
        ) from None
    if not found:
        raise ValueError(f"{table} has a header but no rows. Expected one row per image.")
    for row, line in found:
        empty = [name for name in needed if not row[name]]
        if empty:
            raise ValueError(f"{table}, line {line}: {empty[0]} is empty.")
        if "split" in needed and row["split"] not in SPLITS:
            raise ValueError(f"{table}, line {line}: split must be train or test. Received: {row['split']!r}.")
    return list(zip(*found, strict=True))


def _check_header(table, header, needed):
    if needed != NEEDED and "split" in header:
        raise ValueError(
            f"{table} has a column split, which contradicts test_classes. Remove the column, or remove test_classes."
        )
    missing = [name for name in needed if name not in header]
    if missing == ["split"]:
        raise ValueError(
            f"{table} has no column split. Expected a column with train or test for each image. To divide the images "
            f"by class at random, use the dataset \"csv(path='{table}', test_classes=0.3)\"."
        )
    if missing or len(set(header)) < len(header):
        raise ValueError(
            f"{table} has the wrong columns. Expected {','.join(NEEDED)}, each once, and optionally "
            f"{','.join(KNOWN[len(NEEDED) :])}, separated by commas. Received: {header}."
        )
    if len({mark in header for mark in MARKS}) > 1:
        raise ValueError(f"{table} has only one of the columns {' and '.join(MARKS)}. Expected both or neither.")
    others = [name for name in header if name not in KNOWN]
    if others:
        logging.getLogger(__name__).warning(
            "%s has columns that are ignored: %s. tfdml reads only %s.", table, ", ".join(others), ", ".join(KNOWN)
        )


def _shared(rows, name):
    """Maps the values of a column to integers, each empty value to its own one; None if the column does not exist."""
    if name not in rows[0]:
        return None
    values = [(row[name], None) if row[name] else ("", place) for place, row in enumerate(rows)]
    numbers = {value: number for number, value in enumerate(dict.fromkeys(values))}
    return np.array([numbers[value] for value in values], np.int64)


def _captions(table, rows, lines):
    """Returns the captions of each row. Every row must have one."""
    captions = [tuple(filter(None, map(str.strip, row["caption"].split(SEPARATOR)))) for row in rows]
    if () in captions:
        raise ValueError(
            f"{table}, line {lines[captions.index(())]}: caption is empty. Expected a text about the image, or several "
            f"texts separated by {SEPARATOR}."
        )
    return as_column(captions)


# Class labels are stored as signed 64-bit integers.
MOST = 2**63 - 1
# Maximum number of characters of a line to quote in an error.
LONGEST = 200


def read_list(path, /, *, header=0, **columns):
    """Returns the columns of a text file, separated by whitespace, as lists.

    The first `header` lines are skipped. `columns` are the name and the type (`str`, `int` or `float`) of every column,
    in order. The last column may contain spaces.
    """
    if not path.is_file():
        raise FileNotFoundError(f"The list {path} does not exist. Download the dataset again.")
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path} is not UTF-8 text ({error.reason} at byte {error.start}). Download it again."
        ) from None
    rows = [_parse(path, number, line, columns) for number, line in enumerate(lines, 1) if number > header]
    rows = [row for row in rows if row]
    if not rows:
        raise ValueError(f"{path} is empty. Expected lines with {', '.join(columns)}.")
    return [list(column) for column in zip(*rows, strict=True)]


def read_numbered(path, /, **columns):
    """Like `read_list`, but returns a dictionary with the values of the first column, which are unique, as keys."""
    ids, *values = read_list(path, **columns)
    rows = list(zip(*values, strict=True)) if len(values) > 1 else values[0]
    numbered = dict(zip(ids, rows, strict=True))
    if len(numbered) < len(ids):
        twice = next(number for place, number in enumerate(ids) if number in ids[:place])
        raise ValueError(f"{path} contains the {next(iter(columns))} {twice} twice. Download it again.")
    return numbered


def _parse(path, number, line, columns):
    words = line.split(maxsplit=len(columns) - 1)
    if not words:
        return None
    words[-1] = words[-1].rstrip()
    try:
        row = [kind(word) for kind, word in zip(columns.values(), words, strict=True)]
        if "\0" in line or any(isinstance(value, int) and abs(value) > MOST for value in row):
            raise ValueError
        return row
    except ValueError:
        expected = " ".join(f"<{name}>" for name in columns)
        numbers = [name for name, kind in columns.items() if kind is not str]
        raise ValueError(
            f"{path}, line {number}, is not valid. Expected {expected}"
            f"{', with numbers in ' + ', '.join(numbers) if numbers else ''}. Received: {line.strip()[:LONGEST]!r}."
        ) from None
