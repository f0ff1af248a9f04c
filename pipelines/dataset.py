"""`Dataset` and `Split`, which contain images with labels, and files that list images to ignore."""

import dataclasses
import itertools
import json
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import numpy as np

from pipelines.stored import StoredImages, StoredVectors
from tfdml.files.checked import read_bytes
from tfdml.registry.arguments import FilePath, Rows, number, optional, path

# Fields without one value per row, because they describe classes or several rows.
OF_OTHERS = ("class_names", "class_groups", "relations", "levels", "level_names", "attribute_names")
# Placeholder for the missing image of a relation.
NONE = -1
# A box that contains any image.
WHOLE = (0, 0, 2**30, 2**30)


@dataclasses.dataclass(frozen=True)
class Split:
    """A set of images with labels, such as the training or the test part of a dataset.

    Create one for each part of your own dataset, and pass them to `Dataset`.

    Args:
        images: `[N]` object array of paths (str) or of encoded image files (bytes). Or `StoredImages`, or
            `StoredVectors`.
        labels: `[N]` int64 array of integer class labels.
        class_names: Dictionary from class label to name, or `None`. Defaults to `None`.
        cameras: `[N]` integers or `None`. The camera that took each image. For a query, gallery images of its class by
            the same camera are ignored. Defaults to `None`.
        groups: `[N]` integers or `None`. Equal for near-duplicates, such as frames of one video. For a query, gallery
            images of its class in the same group are ignored. Defaults to `None`.
        boxes: `[N, 4]` int32 or `None`. Left, top, right and bottom in pixels, to which images are cropped. Defaults to
            `None`.
        is_query: `[N]` booleans or `None`. Rows that are queries. If `None`, all rows are. Defaults to `None`.
        is_gallery: `[N]` booleans or `None`. Rows that are searched. If `None`, all rows are. Defaults to `None`.
        class_groups: Dictionary from class label to a group of similar classes, or `None`. Defaults to `None`.
        relations: `[R, 3]` integers or `None`. Explicit pairs or triplets: the labels of an image, of a similar image
            and of a different image, with -1 for a missing one. Each image then has its own label. Defaults to `None`.
        levels: Dictionary from the name of a level of the class hierarchy, such as `"make"`, to a dictionary from class
            label to category, or `None`. Defaults to `None`.
        hierarchy: `[N, L]` integers or `None`. The category of each row at the L levels in use, from coarse to fine.
            Defaults to `None`.
        level_names: Names of these L levels. Defaults to `()`.
        attributes: `[N, C]` booleans or `None`. For multi-label images, which of C labels each row has. Each image then
            has its own class label. Defaults to `None`.
        attribute_names: Names of these C labels. Defaults to `()`.
        captions: `[N]` object array with a tuple of one or several texts for each row, or `None`. Defaults to `None`.

    Raises:
        ValueError: If a column does not have N entries.

    Example:

    ```python
    from pipelines.datasets import Split

    split = Split(np.array(["a.jpg", "b.jpg", "c.jpg"], object), np.array([0, 0, 1]))
    len(split), split.num_classes  # (3, 2)
    split.where(split.labels == 0).images.tolist()  # ['a.jpg', 'b.jpg']
    ```
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
    captions: np.ndarray | None = None

    def __post_init__(self):
        for name, column in self._columns().items():
            if len(column) != len(self.labels):
                raise ValueError(
                    f"{name} must have one entry for each of the {len(self.labels)} labels of a split. Received: "
                    f"{len(column)} entries."
                )

    def __len__(self):
        return len(self.labels)

    @property
    def encoded(self) -> bool:
        """Whether rows are the contents of image files or vectors, and not paths."""
        held = isinstance(self.images, StoredImages | StoredVectors)
        return held or (len(self) > 0 and isinstance(self.images[0], bytes))

    @property
    def identities(self) -> np.ndarray:
        """Array of N values that identify rows: file names without folders, file contents or their fingerprints."""
        if isinstance(self.images, StoredImages | StoredVectors):
            return self.images.fingerprints()
        return self.images if self.encoded else np.array([path.rpartition("/")[2] for path in self.images])

    def different_images(self) -> list:
        """Returns the images of rows, each one only once if several rows show different parts of it."""
        if self.boxes is None:
            return list(self.images)
        parts = dict.fromkeys(zip(self.images, map(tuple, self.boxes.tolist()), strict=True))
        return list(self.images) if len(parts) < len(self) else list(dict.fromkeys(self.images))

    def parts(self) -> list:
        """Returns the image and the box of each row."""
        return list(zip(self.images, map(tuple, self.boxes.tolist()), strict=True))

    @property
    def num_classes(self) -> int:
        """Number of different classes."""
        return len(np.unique(self.labels))

    def where(self, rows: Rows) -> "Split":
        """Returns the split with the selected rows, an index array or a boolean mask."""
        return dataclasses.replace(self, **{name: column[rows] for name, column in self._columns().items()})

    def halves(self) -> tuple["Split", "Split"]:
        """Returns two splits: one with the first half of the classes, by label, and one with the rest."""
        first = self.labels <= np.median(np.unique(self.labels))
        return self.where(first), self.where(~first)

    def numbered(self) -> "Split":
        """Returns the same rows with labels from 0 to C - 1, in the same order of classes."""
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
        """The relations `[R, 3]` between images that are all in this split."""
        return self.relations[np.all(np.isin(self.relations, [NONE, *self.labels.tolist()]), axis=1)]

    def name_of(self, row: int) -> str:
        """Returns the name of a row for messages: its path, its place in an archive, or its index."""
        if isinstance(self.images, StoredImages):
            return self.images.name_of(row)
        return f"image number {row}" if self.encoded else str(self.images[row])

    def class_name(self, label: int) -> str:
        """Returns the name of a class, or its label if it has no name."""
        return (self.class_names or {}).get(label, str(label))

    def _columns(self):
        """Returns the columns with one value per row, by name."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {name: value for name, value in values.items() if name not in OF_OTHERS and value is not None}


# Maximum number of examples that a message lists.
SHOWN = 3


@dataclasses.dataclass(frozen=True)
class Dataset:
    """A training split and a test split with disjoint classes and disjoint files.

    A function that returns one, registered by `tfdml.registry.register("dataset", name)`, is a dataset for
    `--dataset=name`.

    Args:
        name: Name of the dataset, for messages.
        train: `Split` or `None`. `None` is enough for evaluation.
        test: `Split`.
        protocol: Spec of the retrieval protocol. Defaults to `"self_retrieval"`, which searches each test image among
            all other test images.
        look_inside: Boolean. Whether to check the headers of image files before training, as for your own images. For
            a published dataset, run `python -m pipelines.check` once instead. Defaults to `False`.
        undivided: `Undivided`, if the test classes were drawn at random, or `None`. Defaults to `None`.
        measured_as: Function or `None`. For a dataset without classes, converts held-out rows to the rows that are
            evaluated, such as two views of each image. If `None`, rows are evaluated unchanged. Defaults to `None`.

    Raises:
        ValueError: If a split is empty, or if both splits share a class or a file.

    Example:

    ```python
    from pipelines.datasets import Dataset, Split

    train = Split(np.array(["a.jpg", "b.jpg"], object), np.array([0, 0]), {0: "cup"})
    test = Split(np.array(["c.jpg", "d.jpg"], object), np.array([1, 1]), {1: "hat"})
    Dataset("things", train, test).classes()  # {'train': ['cup'], 'test': ['hat']}
    ```
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
                raise ValueError(f"The dataset {self.name} has no {'training' if part == 'train' else part} images.")
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
        """Returns the splits that exist, `{"train": ..., "test": ...}`."""
        splits = {"train": self.train, "test": self.test}
        return {part: split for part, split in splits.items() if split is not None}

    @property
    def has_classes(self) -> bool:
        """Whether labels are classes. They are not for pairs, multi-label images and photos without labels."""
        return self.measured_as is None and self.test.relations is None and self.test.attributes is None

    def classes(self) -> dict[str, list[str]]:
        """Returns the class names by split, `{"train": [...], "test": [...]}`."""
        return {
            part: [split.class_names[label] for label in np.unique(split.labels).tolist()]
            for part, split in self.splits().items()
        }

    def divided_into(self, classes: Mapping[str, Sequence[str]]) -> "Dataset":
        """Returns the dataset divided into these training and test classes, without rows of other classes.

        Args:
            classes: Dictionary `{"train": names, "test": names}` of class names.
        """
        return self.undivided.divide(self.name, classes, protocol=self.protocol, look_inside=self.look_inside)

    def _check_paths(self):
        splits = [split for split in self.splits().values() if not split.encoded]
        if splits and all(split.boxes is not None for split in splits):
            # A photo may show objects of training classes and of test classes.
            listed = [split.parts() for split in splits]
        else:
            listed = [split.different_images() for split in splits]
        twice = [each for each, times in Counter(itertools.chain(*listed)).items() if times > 1]
        if twice:
            both = 0 if len(listed) < 2 else len(set(listed[0]) & set(listed[1]))
            raise ValueError(
                f"The dataset {self.name} lists {len(twice)} images more than once, {both} of them both for training "
                f"and for the test: {', '.join(map(repr, twice[:SHOWN]))}. List each image once."
            )

    def hold_out(self, fraction: float, seed: int) -> tuple[Split, Split]:
        """Divides the training split into training and validation splits with disjoint classes.

        If classes have groups, whole groups are held out, until their classes are as near as possible to `fraction`.

        Args:
            fraction: Float between 0 and 1. Fraction of the training classes to validate on.
            seed: Integer. Determines the validation classes.

        Returns:
            The training and the validation `Split`.

        Raises:
            ValueError: If one of the splits would have no class.
        """
        classes = np.unique(self.train.labels)
        count = round(len(classes) * fraction)
        if not 1 <= count < len(classes):
            raise ValueError(
                f"Holding out a fraction of {fraction} of the {len(classes)} training classes leaves one side without "
                "classes. Expected at least one class for training and one for validation. Change the fraction or add "
                "classes."
            )
        draws = np.random.default_rng(seed)
        if self.train.class_groups is None:
            return self._holding_out(draws.choice(classes, size=count, replace=False))
        groups = self._shuffled_groups(draws)
        held = np.cumsum([len(group) for group in groups[:-1]])
        return self._holding_out(np.concatenate(groups[: 1 + np.abs(held - count).argmin()]))

    def fold(self, number: int, folds: int, seed: int) -> tuple[Split, Split]:
        """Returns the training and validation splits of one fold of k-fold cross-validation, with disjoint classes.

        Each training class is a validation class in exactly one fold. The sizes of folds differ by at most one class,
        or by one group if classes have groups, because groups are not divided.

        Args:
            number: Integer from 0 to `folds - 1`. The fold to validate on.
            folds: Integer of at least 2. Number of folds.
            seed: Integer. Determines which classes are in which fold.

        Returns:
            The training and the validation `Split`.

        Raises:
            ValueError: If there are more folds than training classes or groups of them.
        """
        classes = np.unique(self.train.labels)
        if not (2 <= folds <= len(classes) and 0 <= number < folds):
            raise ValueError(
                f"Expected 2 to {len(classes)} folds, because there are {len(classes)} training classes, and a fold "
                f"number from 0 to folds - 1. Received: fold {number} of {folds}."
            )
        draws = np.random.default_rng(seed)
        if self.train.class_groups is None:
            return self._holding_out(draws.permutation(classes)[number::folds])
        groups = self._shuffled_groups(draws)
        if folds > len(groups):
            raise ValueError(
                f"Expected 2 to {len(groups)} folds, because the training classes form {len(groups)} groups, which are "
                f"not divided. Received: {folds} folds."
            )
        return self._holding_out(np.concatenate(groups[number::folds]))

    def _shuffled_groups(self, draws):
        """Returns the training classes of each group, in random order."""
        classes = np.unique(self.train.labels)
        _, of_class = np.unique([self.train.class_groups[label] for label in classes.tolist()], return_inverse=True)
        groups = [classes[of_class == group] for group in range(of_class.max() + 1)]
        if len(groups) < 2:
            raise ValueError(
                f"All training classes of {self.name} are in one group, and groups are held out as a whole. Expected "
                "at least two groups."
            )
        return [groups[place] for place in draws.permutation(len(groups))]

    def _holding_out(self, classes):
        mask = np.isin(self.train.labels, classes)
        held = self.train.where(mask)
        return self.train.where(~mask), self.measured_as(held) if self.measured_as else held


# Each dataset handles an empty path or None itself.
DataDir = Annotated[FilePath, optional(path())]
TestClasses = Annotated[float, number(above=0, at_most=1)]
HeldOut = Annotated[float, number(above=0, below=1)]


LIST = "bad_images.jsonl"


def list_path(out, data_dir):
    """Returns the path for the list of bad images: `out`, or a file in `data_dir` or in the working directory."""
    path = (Path(out) if out else Path(_folder(data_dir)) / LIST).absolute()
    if out and not path.parent.is_dir():
        raise ValueError(f"--out={out} is in a folder that does not exist: {path.parent}. Create the folder first.")
    if path.is_dir():
        raise ValueError(f"{path} is a folder. Pass the path of a file, such as --out={path / LIST}.")
    if not out and path.is_symlink():
        raise ValueError(f"{path} is a link, which may lead out of --data_dir. Remove it, or pass another --out.")
    if path.parent.is_dir() and not os.access(path.parent, os.W_OK):
        raise PermissionError(
            f"Cannot write the list of bad images to {path}, because the folder is read-only. Pass another --out."
        )
    return path


def names_in_list(split, part, data_dir):
    """Returns the names of a split's rows in a list: paths, relative to `data_dir` if inside it, or e.g. `train#7`."""
    if split.encoded:
        return [f"{part}#{row}" for row in range(len(split))]
    folder = _folder(data_dir)
    below = folder and f"{os.path.normpath(folder)}{os.sep}"
    return [os.path.normpath(path).removeprefix(below) for path in split.images]


def write_list(path, entries):
    """Writes `(name, reason)` pairs as lines of JSON, which can represent any name, even with line breaks."""
    lines = [json.dumps({"image": name, "reason": reason}, ensure_ascii=False) for name, reason in entries]
    Path(path).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", errors="surrogateescape")


def read_list(path):
    """Reads the names in a list: the `image` of each line of JSON, or the stripped line if it is not JSON."""
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
            f'--ignore_images={path}, line {number}, is not valid. Expected {{"image": "..."}} or a path. Received: '
            f"{line!r}."
        ) from None


def without(dataset, names, data_dir):
    """Returns the dataset without the named images, and the sorted names that match no image."""
    # Paths are absolute, because training may use a relative path of its table and evaluation an absolute one.
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
