"""Your own images in a CSV table, and the text lists of published datasets."""

import dataclasses
import logging
import os
from pathlib import Path

import numpy as np

from pipelines.dataset import Dataset, Split, TestClasses
from pipelines.labels import MARKS, SPLITS, TRUTHS, Undivided, class_numbers_of, read_table, several_labels, table_path
from tfdml.registry import register
from tfdml.registry.arguments import FilePath, Seed, Text

NEEDED = ("path", "label", "split")
KNOWN = (*NEEDED, "camera", "group", *MARKS)


@register("dataset", "csv")
def csv(
    path: FilePath,
    data_dir: FilePath | None = None,
    test_classes: TestClasses | None = None,
    seed: Seed = 0,
    separator: Text | None = None,
) -> Dataset:
    """Your own images in a table of `path,label,split[,camera,group][,is_query,is_gallery]`; split: train or test.

    For a query, images of its class with the same camera or group are ignored.

    Args:
        path: the file, in UTF-8, with commas and a header; it may lie in `data_dir`.
        data_dir: folder that paths in the table are relative to. Default: the folder of the table.
        test_classes: fraction of the classes to test on, such as 0.3, for a table without the column split. Default:
            the column decides.
        seed: decides which classes test.
        separator: what divides the labels of an image in the column label, such as ";", where an image has several.
    """
    if separator and test_classes is not None:
        raise ValueError("Images with several labels are not divided by class. Leave out test_classes; split decides.")
    table = table_path(path, data_dir)
    rows, lines = _read(table, NEEDED if test_classes is None else NEEDED[:-1])
    base = Path(data_dir).expanduser() if data_dir else table.parent
    images = [os.path.normpath(os.path.join(base, row["path"])) for row in rows]
    if not os.path.exists(images[0]) and os.path.exists(rows[0]["path"]):
        # A common mistake.
        raise FileNotFoundError(
            f"{table} lists {rows[0]['path']!r}, which is in the working directory and not in {base}, where its paths "
            "start. Pass data_dir='.', in a command --data_dir=., so that they start in the working directory."
        )
    columns = {
        "images": np.array(images, dtype=object),
        "cameras": _shared(rows, "camera"),
        "groups": _shared(rows, "group"),
    }
    for name in [name for name in MARKS if name in rows[0]]:
        for row, line in zip(rows, lines, strict=True):
            if row[name].lower() not in TRUTHS:
                raise ValueError(f"{table}, line {line}: expected 1 or 0 in {name}, received {row[name]!r}.")
        columns[name] = np.array([TRUTHS[row[name].lower()] for row in rows])
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
        raise ValueError(f"{table} has no row with the split test.")
    train, test = (both.where(part == name) for name in SPLITS)
    train = dataclasses.replace(train, **MARKS) if len(train) else None
    return Dataset("csv", train, test, **about)


def _read(table, needed):
    """Returns the rows as dictionaries, and the line of each."""
    try:
        _, found = read_table(table, lambda header: _check_header(table, header, needed))
    except FileNotFoundError:
        raise FileNotFoundError(f"There is no table {table}. Expected a CSV file with {','.join(NEEDED)}.") from None
    if not found:
        raise ValueError(f"{table} has a header and no rows.")
    for row, line in found:
        empty = [name for name in needed if not row[name]]
        if empty:
            raise ValueError(f"{table}, line {line}: {empty[0]} is empty.")
        if "split" in needed and row["split"] not in SPLITS:
            raise ValueError(f"{table}, line {line}: expected the split train or test, received {row['split']!r}.")
    return list(zip(*found, strict=True))


def _check_header(table, header, needed):
    if needed != NEEDED and "split" in header:
        raise ValueError(
            f"{table} has the column split, which divides training and test. Remove test_classes, or the column."
        )
    missing = [name for name in needed if name not in header]
    if missing == ["split"]:
        raise ValueError(
            f"{table} has no column split, with train or test for each image. To have it divided by class, use "
            f"the dataset \"csv(path='{table}', test_classes=0.3)\"."
        )
    if missing or len(set(header)) < len(header):
        raise ValueError(
            f"{table} has the columns {header}; expected {','.join(NEEDED)}, each once, and where wanted "
            f"{','.join(KNOWN[len(NEEDED) :])}; columns are divided by commas."
        )
    if len({mark in header for mark in MARKS}) > 1:
        raise ValueError(f"{table} has one of the columns {' and '.join(MARKS)}; expected both, or none.")
    others = [name for name in header if name not in KNOWN]
    if others:
        logging.getLogger(__name__).warning(
            "%s: the columns %s are not read; known are %s.", table, ", ".join(others), ", ".join(KNOWN)
        )


def _shared(rows, name):
    """Numbers the values of a column; each empty value gets its own number. None if there is no such column."""
    if name not in rows[0]:
        return None
    values = [(row[name], None) if row[name] else ("", place) for place, row in enumerate(rows)]
    numbers = {value: number for number, value in enumerate(dict.fromkeys(values))}
    return np.array([numbers[value] for value in values], np.int64)


# Class numbers are stored in 64 bits.
MOST = 2**63 - 1
# Letters of a line in an error.
LONGEST = 200


def read_list(path, /, *, header=0, **columns):
    """Returns the columns of a text file, separated by white space, a list for each.

    `header` lines come before the first row. `columns` are name to type (`str`, `int` or `float`) of every column, in
    order. The last may contain spaces.
    """
    if not path.is_file():
        raise FileNotFoundError(f"There is no list {path}. Download the dataset again.")
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path} is not UTF-8 text ({error.reason} at byte {error.start}). Download it again."
        ) from None
    rows = [_parse(path, number, line, columns) for number, line in enumerate(lines, 1) if number > header]
    rows = [row for row in rows if row]
    if not rows:
        raise ValueError(f"{path} lists nothing. Expected lines of {', '.join(columns)}.")
    return [list(column) for column in zip(*rows, strict=True)]


def read_numbered(path, /, **columns):
    """Like `read_list`, but returns a dictionary by the first column, whose values must be unique."""
    ids, *values = read_list(path, **columns)
    rows = list(zip(*values, strict=True)) if len(values) > 1 else values[0]
    numbered = dict(zip(ids, rows, strict=True))
    if len(numbered) < len(ids):
        twice = next(number for place, number in enumerate(ids) if number in ids[:place])
        raise ValueError(f"{path} has the {next(iter(columns))} {twice} twice. Download it again.")
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
            f"{path}, line {number}: expected {expected}{', numbers in ' + ', '.join(numbers) if numbers else ''}; "
            f"received {line.strip()[:LONGEST]!r}."
        ) from None
