"""Division of classes into training and test."""

import dataclasses
import hashlib

import numpy as np

from pipelines.datasets.dataset import Dataset
from pipelines.datasets.dataset_arguments import TestClasses
from pipelines.datasets.split import Split
from tfdml.registry.fields import Value

# Only test rows are queries or gallery images.
MARKS = dict.fromkeys(("is_query", "is_gallery"))


class Undivided(Value):
    """Rows of all classes, to be divided into training and test by class.

    Args:
        rows: `Split` with a name for every class.
        test_classes: fraction of the classes to test on, above 0; 1 leaves none to train on.
        seed: decides which classes.
    """

    rows: Split
    test_classes: TestClasses
    seed: int

    def choose(self):
        """Chooses the test classes, and returns the class names by split, `{"train": [...], "test": [...]}`.

        The rank of a class depends on its name and the seed alone, so a new class moves few others.
        """
        names = sorted(self.rows.class_names.values())
        count = round(len(names) * self.test_classes)
        if count == 0 or (count == len(names) and self.test_classes < 1):
            raise ValueError(
                f"test_classes={self.test_classes} of {len(names)} classes leaves no class for "
                f"{'training' if count else 'the test'}. Give another fraction, or more classes."
            )
        test = set(sorted(names, key=self._place)[:count])
        return {"train": [name for name in names if name not in test], "test": [name for name in names if name in test]}

    def divide(self, name, classes=None, **about):
        """Returns a `Dataset` of these rows.

        Args:
            name: name of the dataset.
            classes: class names by split, as `choose` returns them; rows of other classes are left out. Default: those
                that `choose` returns.
            **about: other arguments of `Dataset`.
        """
        train, test = (self._rows_of((classes or self.choose())[part]) for part in ("train", "test"))
        train = dataclasses.replace(train, **MARKS) if len(train) else None
        return Dataset(name, train, test, undivided=self, **about)

    def _place(self, name):
        return hashlib.sha256(f"{self.seed}/{name}".encode(errors="surrogateescape")).digest()

    def _rows_of(self, names):
        wanted = set(names)
        numbers = [number for number, name in self.rows.class_names.items() if name in wanted]
        return self.rows.where(np.isin(self.rows.labels, numbers))
