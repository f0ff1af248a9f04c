"""Evaluation with the neighbor lists that an index finds, and their quality."""

import dataclasses
import functools
from collections.abc import Iterator, Sequence
from typing import Any, Self

import numpy as np

from tfdml.evaluation.metrics.base import Metric
from tfdml.evaluation.queries import RetrievalTask
from tfdml.evaluation.ranks.exact_vectors import ExactVectors
from tfdml.evaluation.ranks.ranks import PositiveRanks, deepest
from tfdml.neighbors.nearest import load_faiss
from tfdml.registry.arguments import Distance, Embeddings
from tfdml.registry.fields import Declared

# Number of pairs that are compared at once.
PAIRS = 2**24


def class_members(task):
    """Returns each query's number of gallery images of its class, and how many of them count, `[2, Q]`."""
    gallery = task.gallery[np.argsort(task.labels[task.gallery], kind="stable")]
    order = np.argsort(task.labels[task.queries], kind="stable")
    labels = task.labels[task.queries][order]
    starts, ends = (np.searchsorted(task.labels[gallery], labels, side) for side in ("left", "right"))
    members, positives = counts = np.empty((2, len(order)), np.int64)
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
    return counts


# Number of rows that are added or compared at once.
ROWS = 16384


class IndexedGallery:
    """Finds the rows of a gallery, `[G]` of embeddings `[N, d]`, that are nearest to a query."""

    def __init__(self, index, embeddings, rows, distance):
        self.index, self.rows = index.of_size(len(rows)), rows
        self.vectors = ExactVectors.of(embeddings, distance)
        faiss = load_faiss()
        self.metric = faiss.METRIC_L2 if distance == "euclidean" else faiss.METRIC_INNER_PRODUCT

    def nearest(self, queries, count):
        """Returns, for each query row `[Q]`, the gallery rows that the index finds, at most `count`."""
        found = self._filled.search(self._vectors(queries), count)[1]
        return [self.rows[each[each >= 0]] for each in found]

    def exactly_nearest(self, queries, count):
        """Returns the gallery rows `[Q, count]` that are truly nearest to the query rows `[Q]`."""
        from faiss.contrib.exhaustive_search import knn_ground_truth

        return self.rows[knn_ground_truth(self._vectors(queries), self._blocks(), count, self.metric)[1]]

    def compared(self, query, rows):
        """Returns the exact similarities `[R]` of a query row to other rows, and their ties, a number or `[R]`."""
        similarities = self.vectors.similarities_of_one(self.vectors.vectors[query], rows)
        ties = self.vectors.ties(self.vectors.offsets[[query]], rows)
        return similarities, ties[0] if np.ndim(ties) else ties

    @functools.cached_property
    def _filled(self):
        def sample(count):
            drawn = np.random.default_rng(0).choice(self.rows, min(count, len(self.rows)), replace=False)
            return self._vectors(np.sort(drawn))

        index = self.index.create(self.vectors.vectors.shape[1], self.metric, sample)
        for block in self._blocks():
            index.add(block)
        return index

    def _blocks(self):
        for start in range(0, len(self.rows), ROWS):
            yield self._vectors(self.rows[start : start + ROWS])

    def _vectors(self, rows):
        return np.ascontiguousarray(self.vectors.vectors[rows])


@dataclasses.dataclass(frozen=True)
class NeighborList:
    """The similarities of the images in a list of nearest neighbors, without images that do not count.

    `positives` are the similarities to images of the query's class, ascending except for ties, and `ties` are the
    differences up to which each counts as equal to others. `negatives` are the similarities to images of other classes,
    ascending. `lowest` are all similarities minus their ties, ascending. `end` is the smallest similarity in the list,
    which images outside of it may share, or minus infinity if the index cannot find more images.
    """

    positives: np.ndarray
    ties: np.ndarray
    negatives: np.ndarray
    lowest: np.ndarray
    end: float

    @classmethod
    def of(cls, query, rows, similarities, ties, task, *, is_all):
        """Creates the list of a query row from the rows `[K]` that were found for it.

        `similarities` and `ties` are the output of `IndexedGallery.compared` for these rows. `is_all` is True if the
        index cannot find other images.
        """
        same = task.labels[rows] == task.labels[query]
        counted = same & task.countable(query[None], rows)[0]
        end = -np.inf if is_all else similarities.min()
        ties = np.broadcast_to(ties, similarities.shape)
        order = np.flatnonzero(counted)[np.argsort((similarities - ties)[counted])]
        lowest = np.sort((similarities - ties)[counted | ~same])
        return cls(similarities[order], ties[order], np.sort(similarities[~same]), lowest, end)

    def __len__(self):
        return len(self.positives) + len(self.negatives)

    def ahead(self):
        """Returns how many negatives in the list are as similar as each positive, starting with the farthest."""
        return len(self.negatives) - np.searchsorted(self.negatives, self.positives - self.ties)

    def is_decided(self, depth):
        """Returns whether no image outside of the list can rank before a positive with a rank of at most `depth`."""
        ranks = self.ahead() + np.arange(len(self.positives), 0, -1)
        # The list is ordered by float32 similarities, which have rounding errors smaller than one more tie.
        return not np.any((ranks <= depth) & (self.positives - 2 * self.ties <= self.end))

    def count_from(self, similarity):
        """Returns how many images in the list have at least this similarity."""
        return sum(int(np.count_nonzero(each >= similarity)) for each in (self.positives, self.negatives))


@dataclasses.dataclass(frozen=True)
class IndexReport:
    """The quality of an index in one search.

    Args:
        spec: String. Spec of the index with all its arguments.
        recall: Float. Share of the exact nearest images that the index found, among those that the metrics use. The
            mean over a sample of queries.
        short_lists: Float. Share of the queries for which the index found fewer images than the metrics use.
    """

    spec: str
    recall: float
    short_lists: float

    def summary(self) -> dict[str, Any]:
        """Returns the numbers by name."""
        return {"index_recall": self.recall, "index_short_lists": self.short_lists}

    @classmethod
    def mean(cls, several: Sequence[Self]) -> Self:
        """Returns the mean of several reports, with the index of the first."""
        recall, short_lists = np.mean([[each.recall, each.short_lists] for each in several], axis=0)
        return cls(several[0].spec, float(recall), float(short_lists))


# Bytes for the lists of a block of queries, bytes per neighbor in them, and the largest number of queries per block.
MEMORY = 2**27
NEIGHBOR = 32
QUERIES = 4096
# Number of queries for which the lists are compared with exact lists.
SAMPLE = 1000
# The number of negatives ahead of a positive that is not in the list.
MANY = 2**62


class IndexSearch:
    """Searches a gallery with an index.

    A neighbor list is as long as the metrics need, plus the images of the query's class that do not count, plus one
    that shows whether the list ends within a tie. If it does, images outside of the list may rank before a positive,
    and a longer list is searched for.

    Args:
        index: `ApproximateIndex`.
        embeddings: `[N, d]` array of finite numbers.
        task: `RetrievalTask` on its rows.
        metrics: List of `RankMetric` objects.
        distance: `"cosine"` or `"euclidean"`.
    """

    def __init__(
        self, index: Any, embeddings: Embeddings, task: RetrievalTask, metrics: Sequence[Metric], distance: Distance
    ):
        self.task = task
        self.gallery = IndexedGallery(index, embeddings, task.gallery, distance)
        counts = class_members(task)
        kept = np.flatnonzero(counts[1])
        self.queries, self.members, self.positives = task.queries[kept], *counts[:, kept]
        # How many of the nearest images the metrics use, and how long each query's list must be to contain them.
        needed = deepest(metrics, self.positives)
        self.depths = np.minimum(needed, len(task.gallery) - self.members + self.positives)
        self._lengths = self.depths + self.members - self.positives + 1
        self.shares, self.short_lists = [], 0

    def ranks(self, *, first_only: bool = False) -> Iterator[PositiveRanks]:
        """Yields `PositiveRanks` of blocks of queries, or only the first rank of each query if `first_only` is True.

        Positives that the index does not find have a rank beyond the ranks that the metrics use.
        """
        self.shares, self.short_lists = [], 0
        later = [np.zeros(0, np.int64)]
        for places, lists in self._searched(np.arange(len(self.queries)), self._lengths):
            for place, each, depth in zip(places, lists, self.depths[places], strict=True):
                self.short_lists += int(len(each) < depth)
                if place in self._lowest:
                    self.shares.append(min(each.count_from(self._lowest[place]), depth) / depth)
            decided = [each.is_decided(depth) for each, depth in zip(lists, self.depths[places], strict=True)]
            later.append(places[np.logical_not(decided)])
            yield from self._ranks(places[decided], [lists[number] for number in np.flatnonzero(decided)], first_only)
        # Without the query's class, these longer lists still have as many negatives as the metrics use.
        for places, lists in self._searched(np.concatenate(later), self.depths + self.members):
            yield from self._ranks(places, lists, first_only)

    def report(self) -> IndexReport:
        """Returns the `IndexReport` of the lists that `ranks` has used."""
        recall, short_lists = float(np.mean(self.shares)), float(self.short_lists / len(self.queries))
        return IndexReport(repr(self.gallery.index), recall, short_lists)

    def _searched(self, places, lengths):
        """Yields blocks of places of queries, each with a list of their `NeighborList` objects."""
        places = places[np.argsort(-lengths[places], kind="stable")]
        while len(places):
            length = int(min(lengths[places[0]], len(self.task.gallery)))
            size = int(np.clip(MEMORY // (NEIGHBOR * length), 1, QUERIES))
            found = self.gallery.nearest(self.queries[places[:size]], length)
            yield places[:size], self._neighbor_lists(places[:size], found, length)
            places = places[size:]

    def _neighbor_lists(self, places, found, length):
        """Returns the `NeighborList` of each query, from rows that were found up to `length`."""
        whole = length == len(self.task.gallery)
        return [
            NeighborList.of(
                query, rows, *self.gallery.compared(query, rows), self.task, is_all=whole or len(rows) < length
            )
            for query, rows in zip(self.queries[places], found, strict=True)
        ]

    def _ranks(self, places, lists, first_only):
        """Yields the `PositiveRanks` of queries, if there are any."""
        if not lists:
            return
        longest = 1 if first_only else int(self.depths[places].max())
        ahead = [
            np.concatenate([np.full(positives - len(each.positives), MANY), each.ahead()])[-longest:]
            for each, positives in zip(lists, self.positives[places], strict=True)
        ]
        yield PositiveRanks.of(self.queries[places], self.positives[places], ahead)

    @functools.cached_property
    def _lowest(self):
        """Maps each sampled query to the similarity, minus a tie, of the last image that metrics use."""
        random = np.random.default_rng(0)
        places = np.sort(random.choice(len(self.queries), min(SAMPLE, len(self.queries)), replace=False))
        length = int(min(self._lengths[places].max(), len(self.task.gallery)))
        lists = self._neighbor_lists(places, self.gallery.exactly_nearest(self.queries[places], length), length)
        depths = self.depths[places]
        return {place: near.lowest[-depth] for place, near, depth in zip(places, lists, depths, strict=True)}


class Index(Declared):
    """Base class of indexes, which define how the images of a gallery are searched.

    An index is created from its spec, such as `ivf(probes=16)`, for the argument `index` of `evaluate` or of a
    protocol.

    Example:

    ```python
    tfdml.registry.create("index", "ivf(probes=16)").probes  # 16
    ```
    """

    #: The name under which the index is registered.
    name = None
    #: Whether it finds only the nearest images and may miss some of them.
    is_approximate = False

    def check(self, metrics: Sequence[Metric]) -> None:
        """Raises a ValueError if a metric needs more than this index finds."""

    def searched(
        self, embeddings: Embeddings, task: RetrievalTask, metrics: Sequence[Metric], distance: Distance
    ) -> IndexSearch | None:
        """Returns an `IndexSearch`, or None if ranks are counted exactly.

        Args:
            embeddings: `[N, d]` array.
            task: `RetrievalTask` on its rows.
            metrics: List of `RankMetric` objects.
            distance: `"cosine"` or `"euclidean"`.
        """
        return None

    def __repr__(self):
        return f"{self.name}({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"
