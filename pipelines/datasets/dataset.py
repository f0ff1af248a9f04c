"""`Dataset`: a training and a test split, and the protocol that measures retrieval on them."""

import dataclasses
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from pipelines.datasets.split import Split

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
        if self.train is not None:
            self._check_classes()
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
        about = {name: getattr(self, name) for name in ("protocol", "look_inside")}
        return self.undivided.divide(self.name, classes, **about)

    def _check_classes(self):
        shared = np.intersect1d(self.train.labels, self.test.labels)
        if len(shared):
            names = {**(self.train.class_names or {}), **(self.test.class_names or {})}
            shown = ", ".join(names.get(label, str(label)) for label in shared.tolist()[:SHOWN])
            raise ValueError(
                f"Training and test must have different classes; {self.name} has {len(shared)} in both: {shown}."
            )

    def _check_paths(self):
        paths = [path for split in self.splits().values() if not split.encoded for path in split.different_images()]
        if len(set(paths)) < len(paths):
            twice = [path for path, times in Counter(paths).items() if times > 1]
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
                f"Holding out {fraction} of {len(classes)} training classes leaves no class on one side. "
                "Expected a fraction that gives both sides at least one class."
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
