"""What every dataset is: rows of images and labels, without pixels."""

import dataclasses

import numpy as np


@dataclasses.dataclass(frozen=True)
class Split:
    """Rows of a dataset.

    Args:
        images: `[N]` object array: paths (str), or encoded image files (bytes).
        labels: `[N]` int64 array of class numbers.
        class_names: names of classes by class number, or None where they have none.
    """

    images: np.ndarray
    labels: np.ndarray
    class_names: dict | None = None

    def __post_init__(self):
        if len(self.images) != len(self.labels):
            raise ValueError(
                f"A split needs one label an image, received {len(self.images)} images, {len(self.labels)} labels."
            )

    def __len__(self):
        return len(self.labels)

    @property
    def encoded(self):
        """True where rows hold image files as bytes, False where they hold paths."""
        return len(self) > 0 and isinstance(self.images[0], bytes)

    @property
    def num_classes(self):
        return len(np.unique(self.labels))

    def where(self, rows):
        """The split of the chosen rows (index or boolean array)."""
        return dataclasses.replace(self, images=self.images[rows], labels=self.labels[rows])

    def numbered(self):
        """The same rows with classes numbered from 0 without a gap, in the same order."""
        classes, labels = np.unique(self.labels, return_inverse=True)
        names = self.class_names
        if names is not None:
            names = {number: names[known] for number, known in enumerate(classes) if known in names}
        return dataclasses.replace(self, labels=labels.astype(np.int64), class_names=names)

    def name_of(self, row):
        """What to call a row in a message: its path, or its number."""
        return f"image number {row}" if self.encoded else str(self.images[row])


@dataclasses.dataclass(frozen=True)
class Dataset:
    """A training split and a test split whose classes are disjoint."""

    name: str
    train: Split
    test: Split

    def hold_out(self, fraction, seed):
        """Training and validation splits with disjoint classes, both taken from the training split.

        Args:
            fraction: share of the training classes, in (0, 1), that validates.
            seed: decides which classes.
        """
        classes = np.unique(self.train.labels)
        held = round(len(classes) * fraction)
        if not 1 <= held < len(classes):
            raise ValueError(
                f"Holding out {fraction} of {len(classes)} training classes leaves no class on one side. "
                "Expected a fraction that gives both sides at least one class."
            )
        chosen = np.random.default_rng(seed).choice(classes, size=held, replace=False)
        mask = np.isin(self.train.labels, chosen)
        return self.train.where(~mask), self.train.where(mask)
