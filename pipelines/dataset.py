"""`Dataset` and `Split`: rows of images with labels, and lists of images to ignore."""

import dataclasses
import json
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import numpy as np

from pipelines.stored import PackedImages, StoredVectors
from tfdml.files.checked import read_bytes
from tfdml.registry.arguments import FilePath, Rows, number, optional, path

# Fields that have no value for each row: of classes, and of several rows.
OF_OTHERS = ("class_names", "class_groups", "relations", "levels", "level_names", "attribute_names")
# Stands for an image that a relation does not have.
NONE = -1
# A box around any image.
WHOLE = (0, 0, 2**30, 2**30)


@dataclasses.dataclass(frozen=True)
class Split:
    """Rows of a dataset.

    Args:
        images: `[N]` object array: paths (str), or encoded image files (bytes); or `PackedImages`, or
            `StoredVectors`.
        labels: `[N]` int64 array of class numbers.
        class_names: names of classes by class number, or None where they have none.
        cameras: `[N]` integers, which camera took the image, or None.
        groups: `[N]` integers, equal for near-duplicates, such as frames of a video, or None.
        boxes: `[N, 4]` int32, left, top, right and bottom in pixels, to which images are cropped, or None.
        is_query: `[N]` booleans: the rows that are queries, or None for all.
        is_gallery: `[N]` booleans: the rows that are searched, or None for all.
        class_groups: class number to the group of similar classes that it belongs to, or None where there are none.
        relations: `[R, 3]` labels of an image, of one that is the same and of one that is not, -1 for none, where this
            is all that is known, and each image is a class of its own; or None.
        levels: name of a level of categories, such as a car's make, to class number to category; or None.
        hierarchy: `[N, L]` number of the category of each row at the levels that are used, from coarse to fine; or
            None.
        level_names: names of these levels.
        attributes: `[N, C]` booleans: which of C labels each row has, where it has several, and each image is a class
            of its own; or None.
        attribute_names: names of these labels.
    """

    images: np.ndarray
    labels: np.ndarray
    class_names: dict | None = None
    cameras: np.ndarray | None = None
    groups: np.ndarray | None = None
    boxes: np.ndarray | None = None
    is_query: np.ndarray | None = None
    is_gallery: np.ndarray | None = None
    class_groups: dict | None = None
    relations: np.ndarray | None = None
    levels: dict | None = None
    hierarchy: np.ndarray | None = None
    level_names: tuple = ()
    attributes: np.ndarray | None = None
    attribute_names: tuple = ()

    def __post_init__(self):
        for name, column in self._columns().items():
            if len(column) != len(self.labels):
                raise ValueError(f"A split of {len(self.labels)} labels needs as many {name}, received {len(column)}.")

    def __len__(self):
        return len(self.labels)

    @property
    def encoded(self) -> bool:
        """True if rows are image files as bytes, or vectors, False if they are paths."""
        held = isinstance(self.images, PackedImages | StoredVectors)
        return held or (len(self) > 0 and isinstance(self.images[0], bytes))

    @property
    def identities(self) -> np.ndarray:
        """Array of N things that tell rows apart: file names without folders, or contents, or what stands for them."""
        if isinstance(self.images, PackedImages | StoredVectors):
            return self.images.fingerprints()
        return self.images if self.encoded else np.array([path.rpartition("/")[2] for path in self.images])

    def different_images(self) -> list:
        """Returns the images of rows, once where rows are different parts of an image."""
        if self.boxes is None:
            return list(self.images)
        parts = dict.fromkeys(zip(self.images, map(tuple, self.boxes.tolist()), strict=True))
        return list(self.images) if len(parts) < len(self) else list(dict.fromkeys(self.images))

    @property
    def num_classes(self) -> int:
        return len(np.unique(self.labels))

    def where(self, rows: Rows) -> "Split":
        """Returns the split of the chosen rows (index or boolean array)."""
        return dataclasses.replace(self, **{name: column[rows] for name, column in self._columns().items()})

    def halves(self) -> tuple["Split", "Split"]:
        """Returns two splits: the first half of the classes, by number, and the rest."""
        first = self.labels <= np.median(np.unique(self.labels))
        return self.where(first), self.where(~first)

    def numbered(self) -> "Split":
        """Returns the same rows with classes numbered from 0 without gaps, in the same order."""
        classes, labels = np.unique(self.labels, return_inverse=True)

        def renumbered(of_class):
            return of_class and {number: of_class[old] for number, old in enumerate(classes) if old in of_class}

        relations = None if self.relations is None else self.known_relations
        if relations is not None:
            relations = np.where(relations == NONE, NONE, np.searchsorted(classes, relations))
        return dataclasses.replace(
            self,
            labels=labels.astype(np.int64),
            class_names=renumbered(self.class_names),
            class_groups=renumbered(self.class_groups),
            levels=self.levels and {level: renumbered(of_class) for level, of_class in self.levels.items()},
            relations=relations,
        )

    @property
    def known_relations(self) -> np.ndarray:
        """The relations `[R, 3]` all of whose images are rows."""
        return self.relations[np.all(np.isin(self.relations, [NONE, *self.labels.tolist()]), axis=1)]

    def name_of(self, row: int) -> str:
        """Returns the name of a row for messages: its path, or its number."""
        return f"image number {row}" if self.encoded else str(self.images[row])

    def class_name(self, label: int) -> str:
        """Returns the name of a class, or its number where it has none."""
        return (self.class_names or {}).get(label, str(label))

    def _columns(self):
        """Returns the columns, which have a value for each row, by name."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {name: value for name, value in values.items() if name not in OF_OTHERS and value is not None}


# Things that a message names at most.
SHOWN = 3


@dataclasses.dataclass(frozen=True)
class Dataset:
    """A training split and a test split whose classes and files are disjoint.

    Args:
        name: the name it is registered by.
        train: `Split`, or None where there is only a test split, which is enough for evaluation.
        test: `Split`.
        protocol: spec of the retrieval protocol, see `tfdml.evaluation.protocols`.
        look_inside: True to check the headers of image files before training, as for your own images; a published set
            is checked once, by `python -m pipelines.check`.
        undivided: `Undivided`, if the test classes were chosen at random; None if they are given.
        measured_as: function that makes of rows of a dataset without classes, each a class of its own, those that are
            measured, such as two views of each; None: there are classes, which are measured as they are.
    """

    name: str
    train: Split | None
    test: Split
    protocol: str = "self_retrieval"
    look_inside: bool = False
    undivided: object = None
    measured_as: Callable[[Split], Split] | None = None

    def __post_init__(self):
        for part, split in self.splits().items():
            if not len(split):
                raise ValueError(f"{self.name} has no {'training' if part == 'train' else part} image.")
        for name, marks in (("query", self.test.is_query), ("gallery image", self.test.is_gallery)):
            if marks is not None and not marks.any():
                raise ValueError(f"The test split of {self.name} has no {name}.")
        shared = [] if self.train is None else np.intersect1d(self.train.labels, self.test.labels).tolist()
        if shared:
            names = {**(self.train.class_names or {}), **(self.test.class_names or {})}
            raise ValueError(
                f"Training and test must have different classes; {self.name} has {len(shared)} in both: "
                f"{', '.join(names.get(label, str(label)) for label in shared[:SHOWN])}."
            )
        self._check_paths()

    def splits(self) -> dict[str, Split]:
        """Returns the existing splits, `{"train": ..., "test": ...}`."""
        splits = {"train": self.train, "test": self.test}
        return {part: split for part, split in splits.items() if split is not None}

    @property
    def has_classes(self) -> bool:
        """Whether labels are classes, and not numbers of images of which something else is known, or nothing."""
        return self.measured_as is None and self.test.relations is None and self.test.attributes is None

    def classes(self) -> dict[str, list[str]]:
        """Returns the class names by split, `{"train": [...], "test": [...]}`."""
        return {
            part: [split.class_names[label] for label in np.unique(split.labels).tolist()]
            for part, split in self.splits().items()
        }

    def divided_into(self, classes: Mapping[str, Sequence[str]]) -> "Dataset":
        """Returns the dataset with its rows divided into these classes; rows of other classes are left out.

        Args:
            classes: `{"train": names, "test": names}`.
        """
        return self.undivided.divide(self.name, classes, protocol=self.protocol, look_inside=self.look_inside)

    def _check_paths(self):
        paths = [path for split in self.splits().values() if not split.encoded for path in split.different_images()]
        twice = [path for path, times in Counter(paths).items() if times > 1]
        if twice:
            both = 0 if self.train is None else len(set(self.train.images) & set(self.test.images))
            raise ValueError(
                f"{self.name} lists {len(twice)} images more than once, {both} of them for training and for test: "
                f"{', '.join(map(repr, twice[:SHOWN]))}. List each image once."
            )

    def hold_out(self, fraction: float, seed: int) -> tuple[Split, Split]:
        """Returns training and validation splits with disjoint classes, both taken from the training split.

        Where classes have groups, groups are held out whole, as many as come nearest to the fraction of the classes.

        Args:
            fraction: fraction of the training classes to validate on, in (0, 1).
            seed: decides which classes.
        """
        classes = np.unique(self.train.labels)
        count = round(len(classes) * fraction)
        if not 1 <= count < len(classes):
            raise ValueError(
                f"Holding out {fraction} of {len(classes)} training classes leaves no class on one side. Expected a "
                "fraction that gives both sides at least one class."
            )
        draws = np.random.default_rng(seed)
        if self.train.class_groups is None:
            return self._holding_out(draws.choice(classes, size=count, replace=False))
        groups = self._shuffled_groups(draws)
        held = np.cumsum([len(group) for group in groups[:-1]])
        return self._holding_out(np.concatenate(groups[: 1 + np.abs(held - count).argmin()]))

    def fold(self, number: int, folds: int, seed: int) -> tuple[Split, Split]:
        """Returns training and validation splits of k-fold cross-validation, with disjoint classes.

        Each training class validates in exactly one fold; folds differ by one class at most, or by one group where
        classes have groups, which are not divided.

        Args:
            number: which fold validates, 0 to `folds - 1`.
            folds: number of parts the training classes are divided into, 2 or more.
            seed: decides which classes are in which part.
        """
        classes = np.unique(self.train.labels)
        if not (2 <= folds <= len(classes) and 0 <= number < folds):
            raise ValueError(
                f"Expected 2 to {len(classes)} folds, the number of training classes, and a fold from 0 to one less "
                f"than that; received fold {number} of {folds}."
            )
        draws = np.random.default_rng(seed)
        if self.train.class_groups is None:
            return self._holding_out(draws.permutation(classes)[number::folds])
        groups = self._shuffled_groups(draws)
        if folds > len(groups):
            raise ValueError(f"Expected 2 to {len(groups)} folds, the number of groups of training classes.")
        return self._holding_out(np.concatenate(groups[number::folds]))

    def _shuffled_groups(self, draws):
        """Returns the training classes of each group, in random order."""
        classes = np.unique(self.train.labels)
        _, of_class = np.unique([self.train.class_groups[label] for label in classes.tolist()], return_inverse=True)
        groups = [classes[of_class == group] for group in range(of_class.max() + 1)]
        if len(groups) < 2:
            raise ValueError(f"The training classes of {self.name} are one group, and groups are held out whole.")
        return [groups[place] for place in draws.permutation(len(groups))]

    def _holding_out(self, classes):
        mask = np.isin(self.train.labels, classes)
        held = self.train.where(mask)
        return self.train.where(~mask), self.measured_as(held) if self.measured_as else held


# If it is empty or None, each dataset says itself what to do.
DataDir = Annotated[FilePath, optional(path())]
TestClasses = Annotated[float, number(above=0, at_most=1)]
HeldOut = Annotated[float, number(above=0, below=1)]


LIST = "bad_images.jsonl"


def list_path(out, data_dir):
    """Returns where to write a list: `out`; if empty, in `data_dir`; if that is empty too, in the working directory."""
    path = (Path(out) if out else Path(_folder(data_dir)) / LIST).absolute()
    if out and not path.parent.is_dir():
        raise ValueError(f"--out={out}: there is no folder {path.parent}.")
    if path.is_dir():
        raise ValueError(f"{path} is a folder. Give a file, such as --out={path / LIST}.")
    if not out and path.is_symlink():
        raise ValueError(f"{path} is a link, perhaps out of the folder of the data. Remove it, or give --out.")
    if path.parent.is_dir() and not os.access(path.parent, os.W_OK):
        raise PermissionError(
            f"Cannot write the list of bad images to {path}: the folder is read-only. Give another --out."
        )
    return path


def names_in_list(split, part, data_dir):
    """Returns the names of a split's rows in a list: paths, relative to `data_dir` if inside it, or `train#7`."""
    if split.encoded:
        return [f"{part}#{row}" for row in range(len(split))]
    folder = _folder(data_dir)
    below = folder and f"{os.path.normpath(folder)}{os.sep}"
    return [os.path.normpath(path).removeprefix(below) for path in split.images]


def write_list(path, entries):
    """Writes `(name, reason)` pairs as lines of JSON, which can hold any name, even one with line breaks."""
    lines = [json.dumps({"image": name, "reason": reason}, ensure_ascii=False) for name, reason in entries]
    Path(path).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", errors="surrogateescape")


def read_list(path):
    """Reads the names in a list: the `image` of each line of JSON, or else the line without spaces around it."""
    try:
        lines = read_bytes(path).decode("utf-8-sig", errors="surrogateescape").split("\n")
    except OSError as error:
        raise OSError(f"Cannot read --ignore_images={path}: {error.strerror or error}.") from None
    return [_name(path, number, line.strip()) for number, line in enumerate(lines, 1) if line.strip()]


def _name(path, number, line):
    if not line.startswith("{"):
        return line
    try:
        name = json.loads(line)["image"]
        if not isinstance(name, str):
            raise ValueError
        return name
    except (ValueError, KeyError, RecursionError):
        raise ValueError(
            f'--ignore_images={path}, line {number}: expected {{"image": "..."}} or a path, received {line!r}.'
        ) from None


def without(dataset, names, data_dir):
    """Returns the dataset without the named images, and the names that no image has, sorted."""
    # Absolute: a run may name its table by a relative path, and its evaluation by an absolute one.
    paths = {name: os.path.abspath(os.path.join(_folder(data_dir), name)) for name in names}
    parts, left_out = {}, set()
    for part, split in dataset.splits().items():
        if split.encoded:
            images, ignored = names_in_list(split, part, data_dir), set(paths)
        else:
            images, ignored = list(map(os.path.abspath, split.images)), set(paths.values())
        left_out |= ignored.intersection(images)
        parts[part] = split.where(np.array([image not in ignored for image in images], bool))
    unknown = sorted(name for name, path in paths.items() if not left_out & {name, path})
    return dataclasses.replace(dataset, **parts), unknown


def _folder(data_dir):
    return str(Path(data_dir).expanduser()) if data_dir else ""
