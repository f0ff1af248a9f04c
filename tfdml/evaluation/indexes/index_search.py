"""`IndexSearch`: ranks of positives from the lists of nearest neighbors that an index finds."""

import functools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tfdml.evaluation.indexes.class_members import ClassMembers
from tfdml.evaluation.indexes.index_report import IndexReport
from tfdml.evaluation.indexes.indexed_gallery import IndexedGallery
from tfdml.evaluation.indexes.neighbor_list import NeighborList
from tfdml.evaluation.metrics.metric import Metric
from tfdml.evaluation.ranks.metric_depths import deepest
from tfdml.evaluation.ranks.ranks import PositiveRanks
from tfdml.evaluation.search import RetrievalTask
from tfdml.registry.arguments import Distance, Embeddings

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
        counts = ClassMembers.of(task)
        kept = np.flatnonzero(counts.positives)
        self.queries, self.members, self.positives = task.queries[kept], counts.members[kept], counts.positives[kept]
        # How many of the nearest images decide the metrics.
        needed = deepest(metrics, self.positives)
        self.depths = np.minimum(needed, len(task.gallery) - self.members + self.positives)
        self.shares, self.short_lists = [], 0

    def ranks(self, *, first_only: bool = False) -> Iterator[PositiveRanks]:
        """Yields `PositiveRanks` of blocks of queries.

        Positives that are not found have a rank beyond those that the metrics look at.

        Args:
            first_only: True for the rank of each query's first positive only.
        """
        self.shares, self.short_lists = [], 0
        later = [np.zeros(0, np.int64)]
        for places, lists in self._searched(np.arange(len(self.queries)), self._lengths):
            self._watch(places, lists)
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

    @property
    def _lengths(self):
        """`[Q]`: how long the list of each query must be."""
        return self.depths + self.members - self.positives + 1

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
        lists = []
        for query, rows in zip(self.queries[places], found, strict=True):
            is_all = len(rows) < length or length == len(self.task.gallery)
            lists.append(NeighborList.of(query, rows, *self.gallery.compared(query, rows), self.task, is_all=is_all))
        return lists

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

    def _watch(self, places, lists):
        """Notes how good lists are."""
        for place, each, depth in zip(places, lists, self.depths[places], strict=True):
            self.short_lists += int(len(each) < depth)
            if place in self._lowest:
                found = each.count_from(self._lowest[place])
                self.shares.append(min(found, depth) / depth)

    @functools.cached_property
    def _lowest(self):
        """The place of each query of a sample, to the similarity, less a tie, of the last that the metrics look at."""
        random = np.random.default_rng(0)
        places = np.sort(random.choice(len(self.queries), min(SAMPLE, len(self.queries)), replace=False))
        length = int(min(self._lengths[places].max(), len(self.task.gallery)))
        lists = self._neighbor_lists(places, self.gallery.exactly_nearest(self.queries[places], length), length)
        depths = self.depths[places]
        return {place: each.lowest_at(depth) for place, each, depth in zip(places, lists, depths, strict=True)}
