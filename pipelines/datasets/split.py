"""`Split`: rows of image files and labels."""

import dataclasses

import numpy as np

from pipelines.datasets.packed_images import PackedImages
from pipelines.datasets.stored_vectors import StoredVectors
from tfdml.registry.arguments import Rows

# Fields that have no value for each row: of classes, and of several rows.
OF_OTHERS = ("class_names", "class_groups", "relations", "levels", "level_names", "attribute_names")
# Stands for an image that a relation does not have.
NONE = -1


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
        if len(self.images) != len(self.labels):
            raise ValueError(
                f"A split needs one label per image, received {len(self.images)} images, {len(self.labels)} labels."
            )
        for name, column in self._columns().items():
            if len(column) != len(self.labels):
                raise ValueError(f"A split of {len(self.labels)} images needs as many {name}, received {len(column)}.")

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
        by_class = {"class_names": self.class_names, "class_groups": self.class_groups}
        of_classes = {what: None if known is None else _of_numbers(known, classes) for what, known in by_class.items()}
        if self.levels is not None:
            of_classes["levels"] = {level: _of_numbers(known, classes) for level, known in self.levels.items()}
        relations = None if self.relations is None else _numbered(self.known_relations, classes)
        return dataclasses.replace(self, labels=labels.astype(np.int64), relations=relations, **of_classes)

    @property
    def known_relations(self) -> np.ndarray:
        """The relations `[R, 3]` all of whose images are rows."""
        return self.relations[np.all(np.isin(self.relations, [NONE, *self.labels.tolist()]), axis=1)]

    def name_of(self, row: int) -> str:
        """Returns the name of a row for messages: its path, or its number."""
        return f"image number {row}" if self.encoded else str(self.images[row])

    def _columns(self):
        """Returns the columns, which have a value for each row, by name."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {name: value for name, value in values.items() if name not in OF_OTHERS and value is not None}


def _of_numbers(known, classes):
    """Returns a mapping by class numbers, by the places of the classes in place of the numbers."""
    return {number: known[old] for number, old in enumerate(classes) if old in known}


def _numbered(relations, classes):
    """Relations with the place of each label among the classes in place of the label."""
    return np.where(relations == NONE, NONE, np.searchsorted(classes, relations))
