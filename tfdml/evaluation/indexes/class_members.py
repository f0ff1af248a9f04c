"""How many images of its class a query can find."""

import dataclasses

import numpy as np

# Pairs that are compared at once.
PAIRS = 2**24


@dataclasses.dataclass(frozen=True)
class ClassMembers:
    """Counts for each query of a task.

    Args:
        members: `[Q]` number of gallery images of its class.
        positives: `[Q]` number of those that count as found.
    """

    members: np.ndarray
    positives: np.ndarray

    @classmethod
    def of(cls, task):
        """Counts.

        Args:
            task: `RetrievalTask`.
        """
        gallery = task.gallery[np.argsort(task.labels[task.gallery], kind="stable")]
        order = np.argsort(task.labels[task.queries], kind="stable")
        labels = task.labels[task.queries][order]
        starts, ends = (np.searchsorted(task.labels[gallery], labels, side) for side in ("left", "right"))
        members, positives = np.empty((2, len(order)), np.int64)
        members[order] = ends - starts
        first = 0
        while first < len(order):
            # Queries of one class.
            size = max(1, PAIRS // max(ends[first] - starts[first], 1))
            last = min(first + size, int(np.searchsorted(labels, labels[first], "right")))
            some = order[first:last]
            rows = gallery[starts[first] : ends[first]]
            positives[some] = task.countable(task.queries[some], rows).sum(axis=1)
            first = last
        return cls(members, positives)
