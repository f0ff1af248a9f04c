"""Labels other than one class for each image: levels, several labels, views, groups, and divisions of classes."""

import csv
import dataclasses
import hashlib
import io
import logging
import zlib
from pathlib import Path

import numpy as np

from pipelines.checks import wrong_header
from pipelines.dataset import WHOLE, Dataset, HeldOut, Split, TestClasses, read_list, without
from tfdml import registry
from tfdml.files.checked import open_file
from tfdml.registry import register
from tfdml.registry.arguments import FilePath, Seed, Text
from tfdml.registry.fields import Value

# The level of the classes themselves, which every dataset has.
CLASS = "class"


def with_levels(dataset: Dataset, names) -> Dataset:
    """Returns the dataset with the categories of each row at these levels, which have to be a tree.

    `names` of levels are from coarse to fine; `class` is the classes.
    """
    if not dataset.has_classes:
        raise ValueError(f"--levels={','.join(names)}: {dataset.name} has no classes.")
    splits = {part: _split_with_levels(dataset.name, split, tuple(names)) for part, split in dataset.splits().items()}
    return dataclasses.replace(dataset, **splits)


def _split_with_levels(name, split: Split, names):
    known = {CLASS: {label: label for label in np.unique(split.labels).tolist()}, **(split.levels or {})}
    unknown = [level for level in names if level not in known]
    if unknown or len(set(names)) < len(names):
        raise ValueError(
            f"--levels={','.join(names)}: expected levels of {name}, each once, from coarse to fine; it has "
            f"{', '.join(known)}."
        )
    columns = [_numbers(split, level, known[level]) for level in names]
    for place in range(len(names) - 1):
        _check_tree(split, names[place : place + 2], columns[place : place + 2], known)
    return dataclasses.replace(split, hierarchy=np.stack(columns, axis=1), level_names=names)


def _numbers(split, level, categories):
    """The number of the category of each row."""
    missing = [label for label in np.unique(split.labels).tolist() if categories.get(label) in (None, "")]
    if missing:
        raise ValueError(
            f"--levels: {len(missing)} classes have no {level}, or several, first {split.class_name(missing[0])}. Give "
            "each class one, or leave the level out."
        )
    numbers = {category: number for number, category in enumerate(sorted(set(categories.values()), key=str))}
    return np.array([numbers[categories[label]] for label in split.labels.tolist()], np.int64)


def _check_tree(split, names, columns, known):
    """Raises a ValueError where images of one category of the finer level have several of the coarser one."""
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
            f"--levels: {names[1]} {finer[0]!r} is in several of {names[0]}, {', '.join(coarser[:3])}, so they are no "
            "tree. Give levels from coarse to fine, each category in one of the level before it."
        )


def several_labels(texts, separator, name_of):
    """Returns `(attributes [N, C], names)`: which labels each image has, and the labels in the order of the columns.

    `texts` are the labels of each image, divided by the `separator`; spaces around them do not count. `name_of` returns
    what an error calls the image with a number.
    """
    of_images = [list(filter(None, map(str.strip, text.split(separator)))) for text in texts]
    missing = [number for number, labels in enumerate(of_images) if not labels]
    if missing:
        raise ValueError(
            f"{name_of(missing[0])}: no label, and so for {len(missing)} images. Expected one or more, divided by "
            f"{separator!r}; leave images out of which nothing is known."
        )
    names = sorted({label for labels in of_images for label in labels})
    columns = {label: column for column, label in enumerate(names)}
    attributes = np.zeros((len(of_images), len(names)), bool)
    for row, labels in zip(attributes, of_images, strict=True):
        row[[columns[label] for label in labels]] = True
    return attributes, tuple(names)


# Fraction of an image's width and height that its second view shows: half of its area.
SHARE = 0.5**0.5


def with_second_views(rows: Split) -> Split:
    """Returns a split of these image files, whole, and then of a part of each, always the same, with equal labels."""
    boxes = np.array([WHOLE] * len(rows) + [_part_of(path) for path in rows.images], np.int32)
    twice = np.tile(np.arange(len(rows)), 2)
    return dataclasses.replace(rows.where(twice), boxes=boxes)


def _part_of(path):
    """The box of the second view; of a file that cannot be read, which is told later, any."""
    from PIL import Image

    if wrong_header(path):
        return 0, 0, 1, 1
    with Image.open(path) as image:
        size = np.array(image.size)
    part = np.maximum(size * SHARE, 1).astype(int)
    name = path.rpartition("/")[2].encode(errors="surrogateescape")
    corner = np.random.default_rng(zlib.crc32(name)).integers(0, size - part + 1)
    return (*corner, *(corner + part))


# Of one class every image finds another.
FEWEST = 2


@register("dataset", "training_classes")
def training_classes(
    dataset: Text,
    held_out: HeldOut = 0.2,
    seed: Seed = 0,
    ignore_images: FilePath | None = None,
    data_dir: FilePath | None = None,
) -> Dataset:
    """The training classes of another dataset, some held out as the test, to choose settings; its own test is unused.

    The classes that are held out are those of `--evaluate_on=validation`. No image of the dataset's test is opened.

    Args:
        dataset: spec of the other dataset, such as "folder(test_classes=0.3)".
        held_out: fraction of its training classes that are the test here, as `--validation_classes`.
        seed: decides which classes, as `--validation_seed`.
        ignore_images: list of images to leave out, by their names in the other dataset, as `--ignore_images`.
        data_dir: folder of the other dataset.
    """
    whole = registry.create("dataset", dataset, data_dir=data_dir)
    if whole.train is None:
        raise ValueError(f"The dataset {dataset!r} has no training images, of which some could be held out.")
    if ignore_images:
        whole, _ = without(whole, read_list(ignore_images), data_dir)
    train, test = whole.hold_out(held_out, seed)
    if test.num_classes < FEWEST:
        raise ValueError(
            f"Holding out {held_out} of {whole.train.num_classes} training classes leaves {test.num_classes} class to "
            f"measure on. Expected {FEWEST} or more: hold out more, or add classes."
        )
    return Dataset("training_classes", train, test, protocol=whole.protocol, look_inside=whole.look_inside)


# Columns of a table that only test rows need: validation classes are taken from the training rows, and there every row
# is a query and in the gallery. As arguments of a `Split` they unmark its rows.
MARKS = dict.fromkeys(("is_query", "is_gallery"))
# Values of a column of a split.
SPLITS = ("train", "test")
# What a column of yes or no may say; empty means no.
TRUTHS = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False, "": False}


def place_by_name(name, seed):
    """Returns the place of a name in a random order, bytes. Other names do not change it, so new ones move few."""
    return hashlib.sha256(f"{seed}/{name}".encode(errors="surrogateescape")).digest()


def class_numbers_of(names):
    """Returns a number for each name, and the names by number; names that are integers are sorted as numbers."""
    try:
        known = sorted(set(names), key=lambda name: (int(name), name))
    except ValueError:
        known = sorted(set(names))
    numbers = {name: number for number, name in enumerate(known)}
    return np.array([numbers[name] for name in names], np.int64), dict(enumerate(known))


class Undivided(Value):
    """Rows of all classes, which have names, to be divided into training and test by class."""

    rows: Split
    test_classes: TestClasses
    seed: int

    def choose(self):
        """Chooses the test classes, and returns the class names by split, `{"train": [...], "test": [...]}`."""
        names = sorted(self.rows.class_names.values())
        count = round(len(names) * self.test_classes)
        if count == 0 or (count == len(names) and self.test_classes < 1):
            raise ValueError(
                f"test_classes={self.test_classes} of {len(names)} classes leaves no class for "
                f"{'training' if count else 'the test'}. Give another fraction, or more classes."
            )
        test = set(sorted(names, key=lambda name: place_by_name(name, self.seed))[:count])
        return {"train": [name for name in names if name not in test], "test": [name for name in names if name in test]}

    def divide(self, name, classes=None, **about):
        """Returns a `Dataset` of these rows, with other arguments `about` it.

        `classes` are class names by split, as `choose` returns them; rows of other classes are left out.
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
    """Returns the path of a table: in `data_dir`, or else as it is."""
    table = Path(data_dir or "", path).expanduser()
    return table if table.is_file() else Path(path).expanduser()


def read_table(table, check_header):
    """Reads a CSV file in UTF-8 with commas and a header, and returns `(names of columns, [(row, line), ...])`.

    A row is a dictionary of stripped text; empty rows are left out. `check_header` is called with the columns' names
    before the rows are read, and may raise.
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
        raise ValueError(f"{table}, line {reader.line_num}: {error}. Expected CSV with commas.") from None
    for row, line in rows:
        if len(row) != len(header):
            raise ValueError(
                f"{table}, line {line}: {len(row)} columns where the header has {len(header)}. Put text that has "
                "commas into double quotes."
            )
        if any("\0" in text for text in row):
            raise ValueError(f"{table}, line {line}: a zero byte, which no text has. The file is damaged.")
    return header, [(dict(zip(header, map(str.strip, row), strict=True)), line) for row, line in rows]


def read_class_groups(table, column):
    """Returns class to group of a CSV file in UTF-8: its columns `class`, with the classes' names, and `column`."""

    def check_header(header):
        missing = [name for name in ("class", column) if name not in header]
        if missing:
            raise ValueError(f"{table} has no column {missing[0]!r}; it has {', '.join(header) or 'none'}.")

    try:
        _, rows = read_table(table, check_header)
    except FileNotFoundError:
        raise FileNotFoundError(f"class_groups={column!r} needs the table {table}, which does not exist.") from None
    groups, lines = {}, {}
    for row, line in rows:
        name, group = row["class"], row[column]
        if group and groups.get(name, group) != group:
            raise ValueError(
                f"{table} has the class {name!r} in two groups: {groups[name]!r} in line {lines[name]}, {group!r} in "
                f"line {line}. Keep one of them."
            )
        if group:
            groups[name], lines[name] = group, line
    return groups


def in_order_of_groups(classes, groups):
    """Returns the same dictionary of classes with those of a group side by side, groups in the order of the table."""
    missing = [name for name in classes if name not in groups]
    if missing:
        raise ValueError(
            f"classes.csv has no group for {len(missing)} of {len(classes)} classes: {', '.join(missing[:3])}. Each "
            "class folder needs a row with its name in the column 'class'."
        )
    place = {group: number for number, group in enumerate(dict.fromkeys(groups.values()))}
    return {name: classes[name] for name in sorted(classes, key=lambda name: (place[groups[name]], name))}


def read_levels(table):
    """Returns the categories of classes by level, `{column: {class: category}}`, of each column of a table but `class`.

    Empty where there is no such table. Where a class has several categories of a level it has none; who asks for the
    level learns of it.
    """
    try:
        header, rows = read_table(table, lambda header: None)
    except FileNotFoundError:
        return {}
    except ValueError as error:
        logging.getLogger(__name__).warning("Levels of classes are not read. %s", error)
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
