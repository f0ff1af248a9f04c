"""`IndexReport`: how good the lists of an index were."""

import dataclasses
from collections.abc import Sequence
from typing import Any, Self

import numpy as np


@dataclasses.dataclass(frozen=True)
class IndexReport:
    """The quality of an index in one search.

    Args:
        spec: the index, with all its arguments.
        recall: the share of the exact nearest images that it found, of those that the metrics look at; the mean over a
            sample of queries.
        short_lists: the share of the queries for which it found fewer images than the metrics look at.
    """

    spec: str
    recall: float
    short_lists: float

    def summary(self) -> dict[str, Any]:
        """Returns the numbers by name."""
        return {"index_recall": self.recall, "index_short_lists": self.short_lists}

    @classmethod
    def mean(cls, several: Sequence[Self]) -> Self:
        """Returns the mean of several reports; the index is that of the first.

        Args:
            several: list of `IndexReport`.
        """
        recall, short_lists = np.mean([[each.recall, each.short_lists] for each in several], axis=0)
        return cls(several[0].spec, float(recall), float(short_lists))
