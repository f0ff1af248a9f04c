"""Labels other than one class per image: class hierarchies, multi-label images, views, groups and divided classes."""

import csv
import dataclasses
import hashlib
import io
import logging
import zlib
from pathlib import Path

import numpy as np

from pipelines.checks import DAMAGED, decoded_size, wrong_header
from pipelines.dataset import WHOLE, Dataset, HeldOut, Split, TestClasses, read_list, without
from tfdml import registry
from tfdml.files.checked import open_file
from tfdml.registry import register
from tfdml.registry.arguments import FilePath, Seed, Text
from tfdml.registry.fields import Value

# The level of the classes themselves, which every dataset has.
CLASS = "class"


def with_levels(dataset: Dataset, names) -> Dataset:
    """Returns the dataset with the categories of each row at these levels, which must form a tree.

    `names` are the names of levels from coarse to fine. `class` is the level of the classes themselves.
    """
    if not dataset.has_classes:
        raise ValueError(
            f"--levels={','.join(names)} needs a dataset with classes, but {dataset.name} has none. Remove the flag."
        )
    splits = {part: _split_with_levels(dataset.name, split, tuple(names)) for part, split in dataset.splits().items()}
    return dataclasses.replace(dataset, **splits)


def _split_with_levels(name, split: Split, names):
    known = {CLASS: {label: label for label in np.unique(split.labels).tolist()}, **(split.levels or {})}
    unknown = [level for level in names if level not in known]
    if unknown or len(set(names)) < len(names):
        raise ValueError(
            f"--levels={','.join(names)} is not valid. Expected levels of the dataset {name}, each once, from coarse "
            f"to fine. It has {', '.join(known)}."
        )
    columns = [_numbers(split, level, known[level]) for level in names]
    for place in range(len(names) - 1):
        _check_tree(split, names[place : place + 2], columns[place : place + 2], known)
    return dataclasses.replace(split, hierarchy=np.stack(columns, axis=1), level_names=names)


def _numbers(split, level, categories):
    """Returns the integer label of each row's category."""
    missing = [label for label in np.unique(split.labels).tolist() if categories.get(label) in (None, "")]
    if missing:
        raise ValueError(
            f"--levels: {len(missing)} classes have no {level} or several, for example "
            f"{split.class_name(missing[0])}. Expected one for each class. Add it, or remove the level."
        )
    numbers = {category: number for number, category in enumerate(sorted(set(categories.values()), key=str))}
    return np.array([numbers[categories[label]] for label in split.labels.tolist()], np.int64)


def _check_tree(split, names, columns, known):
    """Raises a ValueError if a category of the finer level belongs to several categories of the coarser level."""
    pairs, firsts = np.unique(np.stack(columns, axis=1), axis=0, return_index=True)
    twice = np.flatnonzero(np.bincount(pairs[:, 1]) > 1)
    if len(twice):
        rows = firsts[pairs[:, 1] == twice[0]]
        labels = split.labels[rows].tolist()
        coarser, finer = (
            [str(split.class_name(label) if level == CLASS else known[level][label]) for label in labels]
            for level in names
        )
        raise ValueError(
            f"--levels must form a tree, but {names[1]} {finer[0]!r} is in several categories of {names[0]}: "
            f"{', '.join(coarser[:3])}. List levels from coarse to fine, with each category in one category of the "
            "level before."
        )


def several_labels(texts, separator, name_of):
    """Returns `(attributes [N, C], names)`: which labels each image has, and the name of each column.

    `texts` are the labels of each image, separated by the `separator` and stripped. `name_of` is a function from the
    number of an image to its name for errors.
    """
    of_images = [list(filter(None, map(str.strip, text.split(separator)))) for text in texts]
    missing = [number for number, labels in enumerate(of_images) if not labels]
    if missing:
        raise ValueError(
            f"{name_of(missing[0])}: the image has no label ({len(missing)} images in all). Expected at least one, "
            f"separated by {separator!r}. Remove images without labels."
        )
    names = sorted({label for labels in of_images for label in labels})
    columns = {label: column for column, label in enumerate(names)}
    attributes = np.zeros((len(of_images), len(names)), bool)
    for row, labels in zip(attributes, of_images, strict=True):
        row[[columns[label] for label in labels]] = True
    return attributes, tuple(names)


# Fraction of an image's width and height in its second view, which shows half of its area.
SHARE = 0.5**0.5


def with_second_views(rows: Split) -> Split:
    """Returns a split of these whole images, followed by a fixed part of each image with the same label."""
    boxes = np.array([WHOLE] * len(rows) + [_part_of(path) for path in rows.images], np.int32)
    twice = np.tile(np.arange(len(rows)), 2)
    return dataclasses.replace(rows.where(twice), boxes=boxes)


def _part_of(path):
    """Returns the box of the second view, or any box for a file that cannot be read, which is reported later."""
    from PIL import Image

    if wrong_header(path):
        return 0, 0, 1, 1
    try:
        with Image.open(path) as image:
            size = np.array(decoded_size(image))
    except DAMAGED:
        return 0, 0, 1, 1
    part = np.maximum(size * SHARE, 1).astype(int)
    name = path.rpartition("/")[2].encode(errors="surrogateescape")
    corner = np.random.default_rng(zlib.crc32(name)).integers(0, size - part + 1)
    return (*corner, *(corner + part))


# With a single class, every neighbor would be correct.
FEWEST = 2


@register("dataset", "training_classes")
def training_classes(
    dataset: Text,
    held_out: HeldOut = 0.2,
    seed: Seed = 0,
    ignore_images: FilePath | None = None,
    data_dir: FilePath | None = None,
) -> Dataset:
    """Loads only the training classes of another dataset and holds some out as the test, to choose settings.

    The held-out classes are the same as with `--evaluate_on=validation`. The test images of the other dataset are never
    opened.

    Args:
        dataset: Spec of the other dataset, for example `"folder(test_classes=0.3)"`.
        held_out: Float. Fraction of its training classes to test on, as in `--validation_classes`. Defaults to `0.2`.
        seed: Integer. Determines which classes are held out, as in `--validation_seed`. Defaults to `0`.
        ignore_images: Path of a list of images to skip, with their names in the other dataset, as in `--ignore_images`,
            or `None`. Defaults to `None`.
        data_dir: Folder of the other dataset, or `None`. Defaults to `None`.
    """
    whole = registry.create("dataset", dataset, data_dir=data_dir)
    if whole.train is None:
        raise ValueError(f"The dataset {dataset!r} has no training images. Expected some, to hold out part of them.")
    if ignore_images:
        whole, _ = without(whole, read_list(ignore_images), data_dir)
    train, test = whole.hold_out(held_out, seed)
    if test.num_classes < FEWEST:
        raise ValueError(
            f"held_out={held_out} of {whole.train.num_classes} training classes holds out {test.num_classes} class. "
            f"Expected at least {FEWEST} classes to evaluate on. Set a larger fraction, or add classes."
        )
    return Dataset("training_classes", train, test, protocol=whole.protocol, look_inside=whole.look_inside)


# Columns of a table that only test rows need, because every validation image is both a query and in the gallery. As
# arguments of a `Split`, these values remove the marks from its rows.
MARKS = dict.fromkeys(("is_query", "is_gallery"))
# Values of the column `split`.
SPLITS = ("train", "test")
# Values of a yes-or-no column. Empty means no.
TRUTHS = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False, "": False}


def place_by_name(name, seed):
    """Returns a sort key (bytes) for a random order of names. It does not depend on other names, so few names move."""
    return hashlib.sha256(f"{seed}/{name}".encode(errors="surrogateescape")).digest()


def class_numbers_of(names):
    """Returns an integer label for each name, and the names by label; integer names are sorted as numbers."""
    try:
        known = sorted(set(names), key=lambda name: (int(name), name))
    except ValueError:
        known = sorted(set(names))
    numbers = {name: number for number, name in enumerate(known)}
    return np.array([numbers[name] for name in names], np.int64), dict(enumerate(known))


class Undivided(Value):
    """Rows of all classes with their names, to be divided into training and test by class."""

    rows: Split
    test_classes: TestClasses
    seed: int

    def choose(self):
        """Draws the test classes and returns the class names by split, `{"train": [...], "test": [...]}`."""
        names = sorted(self.rows.class_names.values())
        count = round(len(names) * self.test_classes)
        if count == 0 or (count == len(names) and self.test_classes < 1):
            raise ValueError(
                f"test_classes={self.test_classes} of {len(names)} classes leaves no class for "
                f"{'training' if count else 'the test'}. Change the fraction, or add classes."
            )
        test = set(sorted(names, key=lambda name: place_by_name(name, self.seed))[:count])
        return {"train": [name for name in names if name not in test], "test": [name for name in names if name in test]}

    def divide(self, name, classes=None, **about):
        """Returns a `Dataset` of these rows; `about` are further arguments of it.

        `classes` are class names by split in the format of `choose`. Rows of other classes are dropped.
        """
        chosen, splits = classes or self.choose(), []
        for part in SPLITS:
            names = set(chosen[part])
            numbers = [number for number, class_name in self.rows.class_names.items() if class_name in names]
            splits.append(self.rows.where(np.isin(self.rows.labels, numbers)))
        train, test = splits
        train = dataclasses.replace(train, **MARKS) if len(train) else None
        return Dataset(name, train, test, undivided=self, **about)


def table_path(path, data_dir):
    """Returns the path of a table in `data_dir` if it exists, or else `path`."""
    table = Path(data_dir or "", path).expanduser()
    return table if table.is_file() else Path(path).expanduser()


def read_table(table, check_header):
    """Reads a CSV file in UTF-8 with commas and a header; returns `(names of columns, [(row, line), ...])`.

    A row is a dictionary of stripped text. Empty rows are skipped. `check_header` is called with the columns' names
    before the rows are read and may raise an error.
    """
    try:
        with open_file(table) as content, io.TextIOWrapper(content, encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, strict=True)
            header = [name.strip() for name in next(reader, [])]
            check_header(header)
            rows = [(row, reader.line_num) for row in reader if any(row)]
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{table} is not UTF-8 text ({error.reason} at byte {error.start}). Save it as UTF-8."
        ) from None
    except csv.Error as error:
        raise ValueError(
            f"{table}, line {reader.line_num}, is not valid CSV: {error}. Expected columns separated by commas."
        ) from None
    for row, line in rows:
        if len(row) != len(header):
            raise ValueError(
                f"{table}, line {line}, has {len(row)} columns, but the header has {len(header)}. Put text with commas "
                "into double quotes."
            )
        if any("\0" in text for text in row):
            raise ValueError(f"{table}, line {line}, contains a zero byte, so it is not a text file or it is damaged.")
    return header, [(dict(zip(header, map(str.strip, row), strict=True)), line) for row, line in rows]


def read_class_groups(table, column):
    """Returns the group of each class from a CSV file: its columns `class`, with the class names, and `column`."""

    def check_header(header):
        missing = [name for name in ("class", column) if name not in header]
        if missing:
            raise ValueError(f"{table} has no column {missing[0]!r}. Received: {', '.join(header) or 'no columns'}.")

    try:
        _, rows = read_table(table, check_header)
    except FileNotFoundError:
        raise FileNotFoundError(f"class_groups={column!r} needs the table {table}, which does not exist.") from None
    groups, lines = {}, {}
    for row, line in rows:
        name, group = row["class"], row[column]
        if group and groups.get(name, group) != group:
            raise ValueError(
                f"{table} has the class {name!r} in two groups: {groups[name]!r} in line {lines[name]} and {group!r} "
                f"in line {line}. Remove one of them."
            )
        if group:
            groups[name], lines[name] = group, line
    return groups


def in_order_of_groups(classes, groups):
    """Returns the same dictionary of classes, sorted by group, with the groups in the order of the table."""
    missing = [name for name in classes if name not in groups]
    if missing:
        raise ValueError(
            f"classes.csv has no group for {len(missing)} of {len(classes)} classes: {', '.join(missing[:3])}. Add a "
            "row for each class folder, with its name in the column 'class'."
        )
    place = {group: number for number, group in enumerate(dict.fromkeys(groups.values()))}
    return {name: classes[name] for name in sorted(classes, key=lambda name: (place[groups[name]], name))}


def read_levels(table):
    """Returns the categories of classes by level, `{column: {class: category}}`, from all columns except `class`.

    Returns an empty dictionary if the table does not exist. A class with several categories of a level gets none, so
    that using the level raises an error.
    """
    try:
        header, rows = read_table(table, lambda header: None)
    except FileNotFoundError:
        return {}
    except ValueError as error:
        logging.getLogger(__name__).warning("The class hierarchy cannot be read, so it is ignored. %s", error)
        return {}
    if "class" not in header or not rows:
        return {}
    levels = {}
    for name in header:
        categories = {}
        for row, _ in rows:
            categories.setdefault(row["class"], set()).add(row[name])
        levels[name] = {label: next(iter(several)) for label, several in categories.items() if len(several) == 1}
    del levels["class"]
    return levels
