"""Training and test classes of images that are not divided yet."""

import dataclasses
import hashlib

import numpy as np

from pipelines.datasets.dataset import Dataset, Split
from tfdml.argument_checks import expects
from tfdml.arguments import number

# Which images are queries or gallery is a matter of the test alone.
MARKS = dict.fromkeys(("is_query", "is_gallery"))


TEST_CLASSES = number(above=0, at_most=1)


@expects(test_classes=TEST_CLASSES)
@dataclasses.dataclass(frozen=True)
class Undivided:
    """Rows of all classes, of which some are for testing.

    Args:
        rows: `Split` with a name for every class.
        test_classes: share of the classes that test, above 0; 1 leaves none to train.
        seed: decides which classes.
    """

    rows: Split
    test_classes: float
    seed: int

    def choose(self):
        """The names of the classes by part, `{"train": [...], "test": [...]}`.

        The place of a class in the order depends on its name and the seed alone, so another class moves few others.
        """
        names = sorted(self.rows.class_names.values())
        count = round(len(names) * self.test_classes)
        if count == 0 or (count == len(names) and self.test_classes < 1):
            raise ValueError(
                f"test_classes={self.test_classes} of {len(names)} classes leaves no class for "
                f"{'training' if count else 'the test'}. Give another share, or more classes."
            )
        test = set(sorted(names, key=self._place)[:count])
        return {"train": [name for name in names if name not in test], "test": [name for name in names if name in test]}

    def divide(self, name, classes=None, **about):
        """A `Dataset` of these rows.

        Args:
            name: the dataset's.
            classes: names by part, as `choose` gives them; rows of other classes are left out. None: as `choose` says.
            **about: what else a `Dataset` takes.
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
