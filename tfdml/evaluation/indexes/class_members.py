"""How many images of its class a query can find."""

import dataclasses

import numpy as np

# Pairs that are compared at once.
PAIRS = 2**24


@dataclasses.dataclass(frozen=True)
class ClassMembers:
    """Counts for each query of a search.

    Args:
        members: `[Q]` number of gallery images of its class.
        positives: `[Q]` number of those that count as found.
    """

    members: np.ndarray
    positives: np.ndarray

    @classmethod
    def of(cls, search):
        """Counts.

        Args:
            search: `Search`.
        """
        gallery = search.gallery[np.argsort(search.labels[search.gallery], kind="stable")]
        order = np.argsort(search.labels[search.queries], kind="stable")
        labels = search.labels[search.queries][order]
        starts, ends = (np.searchsorted(search.labels[gallery], labels, side) for side in ("left", "right"))
        members, positives = np.empty((2, len(order)), np.int64)
        members[order] = ends - starts
        first = 0
        while first < len(order):
            # Queries of one class.
            size = max(1, PAIRS // max(ends[first] - starts[first], 1))
            last = min(first + size, int(np.searchsorted(labels, labels[first], "right")))
            some = order[first:last]
            rows = gallery[starts[first] : ends[first]]
            positives[some] = search.countable(search.queries[some], rows).sum(axis=1)
            first = last
        return cls(members, positives)
