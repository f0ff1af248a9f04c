"""Evaluation with the lists of nearest neighbors that an index finds, and their quality."""

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

# Pairs that are compared at once.
PAIRS = 2**24


def class_members(task):
    """Returns how many gallery images of its class each query has, and how many of them count as found, `[2, Q]`."""
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


# Rows that are added or compared at once.
ROWS = 16384


class IndexedGallery:
    """Finds the rows of a gallery, `[G]` of embeddings `[N, d]`, that are nearest to a query."""

    def __init__(self, index, embeddings, rows, distance):
        self.index, self.rows = index.of_size(len(rows)), rows
        self.vectors = ExactVectors.of(embeddings, distance)
        faiss = load_faiss()
        self.metric = faiss.METRIC_L2 if distance == "euclidean" else faiss.METRIC_INNER_PRODUCT

    def nearest(self, queries, count):
        """Returns for each of the rows of queries `[Q]` the gallery rows that the index finds, at most `count`."""
        found = self._filled.search(self._vectors(queries), count)[1]
        return [self.rows[each[each >= 0]] for each in found]

    def exactly_nearest(self, queries, count):
        """Returns the rows `[Q, count]` that are nearest; arguments as of `nearest`."""
        from faiss.contrib.exhaustive_search import knn_ground_truth

        return self.rows[knn_ground_truth(self._vectors(queries), self._blocks(), count, self.metric)[1]]

    def compared(self, query, rows):
        """Returns the exact similarities `[R]` of a query's row to other rows, and their ties, a number or `[R]`."""
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
    """The similarities of the images in a list of nearest neighbors; what does not count is left out.

    `positives` are those of the query's class, ascending but for ties, `ties` by how much each may differ and count as
    equal, `negatives` those of other classes, ascending, and `lowest` all of them less their ties, ascending. `end` is
    the smallest similarity in the list, which images outside may have too; minus infinity if the index has found all
    that it can find.
    """

    positives: np.ndarray
    ties: np.ndarray
    negatives: np.ndarray
    lowest: np.ndarray
    end: float

    @classmethod
    def of(cls, query, rows, similarities, ties, task, *, is_all):
        """Creates the list of a query's row from what `IndexedGallery.compared` returns of the rows `[K]` found.

        `is_all` says that the index can find no others.
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
        """Returns the number of negatives in the list that are as similar as each positive, the farthest first."""
        return len(self.negatives) - np.searchsorted(self.negatives, self.positives - self.ties)

    def is_decided(self, depth):
        """Returns whether images outside cannot be ahead of a positive that has a rank of at most `depth`."""
        ranks = self.ahead() + np.arange(len(self.positives), 0, -1)
        # The list is in the order of float32 similarities, whose rounding is less than another tie.
        return not np.any((ranks <= depth) & (self.positives - 2 * self.ties <= self.end))

    def count_from(self, similarity):
        """Returns how many images of the list have at least a similarity."""
        return sum(int(np.count_nonzero(each >= similarity)) for each in (self.positives, self.negatives))


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
        """Returns the mean of several reports; the index is that of the first."""
        recall, short_lists = np.mean([[each.recall, each.short_lists] for each in several], axis=0)
        return cls(several[0].spec, float(recall), float(short_lists))


# Bytes for the lists of a block of queries, for each neighbor in them, and the most queries in a block.
MEMORY = 2**27
NEIGHBOR = 32
QUERIES = 4096
# Queries whose lists are compared with the exact ones.
SAMPLE = 1000
# The number of negatives ahead of a positive that is not in the list.
MANY = 2**62


class IndexSearch:
    """Searches a gallery by an index.

    A list is as long as the metrics need, plus the images of the query's class that do not count, plus one that shows
    whether the list ends amid a tie. If it does, so that images outside may be ahead of a positive, a longer list is
    searched for.

    Args:
        index: `ApproximateIndex`.
        embeddings: `[N, d]` array, finite.
        task: `RetrievalTask` among its rows.
        metrics: list of `RankMetric`.
        distance: `cosine` or `euclidean`.
    """

    def __init__(
        self, index: Any, embeddings: Embeddings, task: RetrievalTask, metrics: Sequence[Metric], distance: Distance
    ):
        self.task = task
        self.gallery = IndexedGallery(index, embeddings, task.gallery, distance)
        counts = class_members(task)
        kept = np.flatnonzero(counts[1])
        self.queries, self.members, self.positives = task.queries[kept], *counts[:, kept]
        # How many of the nearest images decide the metrics, and how long the list of each query must be for these.
        needed = deepest(metrics, self.positives)
        self.depths = np.minimum(needed, len(task.gallery) - self.members + self.positives)
        self._lengths = self.depths + self.members - self.positives + 1
        self.shares, self.short_lists = [], 0

    def ranks(self, *, first_only: bool = False) -> Iterator[PositiveRanks]:
        """Yields `PositiveRanks` of blocks of queries, of each only the first if asked for.

        Positives that are not found have a rank beyond those that the metrics look at.
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
        # So long that, beside the query's class, they have as many negatives as the metrics look at.
        for places, lists in self._searched(np.concatenate(later), self.depths + self.members):
            yield from self._ranks(places, lists, first_only)

    def report(self) -> IndexReport:
        """Returns the `IndexReport` of the lists that `ranks` has used."""
        recall, short_lists = float(np.mean(self.shares)), float(self.short_lists / len(self.queries))
        return IndexReport(repr(self.gallery.index), recall, short_lists)

    def _searched(self, places, lengths):
        """Yields blocks of places of queries, and a list of their `NeighborList`s."""
        places = places[np.argsort(-lengths[places], kind="stable")]
        while len(places):
            length = int(min(lengths[places[0]], len(self.task.gallery)))
            size = int(np.clip(MEMORY // (NEIGHBOR * length), 1, QUERIES))
            found = self.gallery.nearest(self.queries[places[:size]], length)
            yield places[:size], self._neighbor_lists(places[:size], found, length)
            places = places[size:]

    def _neighbor_lists(self, places, found, length):
        """Returns a list of `NeighborList`s of the rows that were found for each query, up to `length`."""
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
        """The place of each query of a sample, to the similarity, less a tie, of the last that the metrics look at."""
        random = np.random.default_rng(0)
        places = np.sort(random.choice(len(self.queries), min(SAMPLE, len(self.queries)), replace=False))
        length = int(min(self._lengths[places].max(), len(self.task.gallery)))
        lists = self._neighbor_lists(places, self.gallery.exactly_nearest(self.queries[places], length), length)
        depths = self.depths[places]
        return {place: near.lowest[-depth] for place, near, depth in zip(places, lists, depths, strict=True)}


class Index(Declared):
    """How the images of a gallery are searched."""

    #: The name under which it is registered.
    name = None
    #: Whether it finds only the nearest images, and not always all of them.
    is_approximate = False

    def check(self, metrics: Sequence[Metric]) -> None:
        """Raises a ValueError if a metric needs what this index does not find."""

    def searched(
        self, embeddings: Embeddings, task: RetrievalTask, metrics: Sequence[Metric], distance: Distance
    ) -> IndexSearch | None:
        """Returns an `IndexSearch`, or None if ranks are counted instead.

        Args:
            embeddings: `[N, d]` array.
            task: `RetrievalTask` among its rows.
            metrics: list of `RankMetric`.
            distance: `cosine` or `euclidean`.
        """
        return None

    def __repr__(self):
        return f"{self.name}({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"
