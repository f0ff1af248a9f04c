"""The exact rank of every positive of every query, in blocks of queries."""

import concurrent.futures
import dataclasses
import functools
import itertools
import os
from collections.abc import Sequence
from typing import Self

import numpy as np

from tfdml.evaluation.ranks.counts import ExactCounts, FloatCounts, count_at_least, may_use_tensorflow
from tfdml.evaluation.ranks.exact_vectors import TIE, ExactVectors


@dataclasses.dataclass(frozen=True)
class PositiveRanks:
    """The ranks of the positives of a block of queries.

    Args:
        rows: `[B]` rows of the queries.
        positives: `[B]` number of positives of each query, 1 or more.
        ranks: `[B, P]` integers: the rank of each positive from 1, ascending; 0 behind a query's last. If only the
            first positive was asked for, P is 1.
    """

    rows: np.ndarray
    positives: np.ndarray
    ranks: np.ndarray

    @classmethod
    def of(cls, rows: np.ndarray, positives: np.ndarray, ahead: Sequence[np.ndarray]) -> Self:
        """Creates the ranks of queries from the numbers of negatives ahead of each one's positives, farthest first."""
        ranks = np.zeros((len(ahead), max(map(len, ahead))), np.int64)
        places = np.arange(1, ranks.shape[1] + 1)
        for row, each in zip(ranks, ahead, strict=True):
            np.add(each[::-1], places[: len(each)], out=row[: len(each)])
        return cls(rows, positives, ranks)

    @property
    def first(self) -> np.ndarray:
        """`[B]` ranks of each query's first positive."""
        return self.ranks[:, 0]

    def precisions(self) -> np.ndarray:
        """`[B, P]`: the precision at the rank of each positive; 0 behind a query's last."""
        precisions = np.arange(1, self.ranks.shape[1] + 1) / np.maximum(self.ranks, 1)
        precisions[self.ranks == 0] = 0.0
        return precisions

    def mean_over_positives(self, values: np.ndarray) -> np.ndarray:
        """Returns the mean `[B]` of a value for each positive, `[B, P]` with zeros behind a query's last."""
        # One after another, so that the zeros, as many as the block has it, change no bit.
        return np.cumsum(values, axis=1)[:, -1] / self.positives


# Queries that a thread takes at once.
PART = 64


@dataclasses.dataclass(frozen=True)
class QueryBlock:
    """Queries with a positive, and how many negatives were found ahead of each positive.

    For each query there are `thresholds`, the similarities of its positives in ascending order, which negatives are
    compared with, and `ahead`, the number of negatives that are as similar as each of these.
    """

    rows: np.ndarray
    vectors: np.ndarray
    positives: np.ndarray
    thresholds: list
    ahead: list

    @classmethod
    def of(cls, rows, vectors, thresholds):
        """Creates the block before any negative was found."""
        positives = np.array([len(each) for each in thresholds], np.int64)
        return cls(rows, vectors, positives, thresholds, [np.zeros(len(each), np.int64) for each in thresholds])

    def __len__(self):
        return len(self.rows)

    def take(self, places):
        """Returns the block of some of the queries, which shares what was found."""
        if len(places) == len(self):
            return self
        thresholds, ahead = ([each[place] for place in places] for each in (self.thresholds, self.ahead))
        return QueryBlock(self.rows[places], self.vectors[places], self.positives[places], thresholds, ahead)

    def parts(self, size):
        """Yields blocks of at most `size` queries each."""
        for start in range(0, len(self), size):
            yield self.take(np.arange(start, min(start + size, len(self))))

    def add(self, count, threads):
        """Adds negatives that were found, by a pool of threads; returns the block of the queries whose count is None.

        `count` is a function from the place of a query to how many negatives are as similar as each threshold, or to
        None if that takes more exact similarities.
        """
        parts, left = np.array_split(np.arange(len(self)), -(-len(self) // PART)), []
        counts = threads.map(lambda part: [count(query) for query in part.tolist()], parts)
        for query, more in enumerate(itertools.chain.from_iterable(counts)):
            if more is None:
                left.append(query)
            else:
                # In place, because parts of a block share it.
                self.ahead[query] += more
        return self.take(np.array(left, np.int64))


def depths_of(metrics):
    """Returns the function `depths` of `positive_ranks`, or None if the ranks of all positives matter."""
    of_all = [metric for metric in metrics if not metric.first_only]
    if of_all and np.isinf(deepest(of_all, np.ones(1))).any():
        return None
    return lambda positives: (deepest(metrics, positives), deepest(of_all, positives))


def deepest(metrics, positives):
    """Returns how many of the nearest images decide any of the `RankMetric`s, for numbers `[B]` of positives."""
    needed = [np.broadcast_to(metric.depth(positives), positives.shape) for metric in metrics]
    return np.max(needed, axis=0) if needed else np.zeros(positives.shape)


END = object()


def one_ahead(values):
    """Yields the values of an iterable, the next of which a thread computes meanwhile."""
    values = iter(values)
    with concurrent.futures.ThreadPoolExecutor(1) as thread:
        following = thread.submit(next, values, END)
        while (value := following.result()) is not END:
            following = thread.submit(next, values, END)
            yield value


# Gallery rows that are compared at once.
TILE = 65536
# Queries of the first block, which shows how precise products must be to decide most of them.
TRIAL = 256
# If more of a block must be counted again with more precise products, all other blocks begin with these.
MOST_LEFT = 0.25
# Bytes that the similarity and the rank of a positive take in all, until the metrics are computed.
POSITIVE = 256


def positive_ranks(
    embeddings,
    task,
    *,
    distance="cosine",
    first_only=False,
    memory=2**27,
    query_embeddings=None,
    share=range,
    depths=None,
):
    """Yields `PositiveRanks` of blocks of queries; queries without a positive in the gallery are left out.

    A negative that is as similar as a positive, up to a tie (`ExactVectors.ties`), ranks before it, so a collapsed
    embedding scores near 0. The ranks depend neither on `memory` nor on the number of threads, and the time depends on
    the numbers of queries and images alone, but for a small factor.

    Args:
        embeddings: `[N, d]` array, finite.
        task: `RetrievalTask` among its rows.
        distance: `cosine` or `euclidean`.
        first_only: True for the rank of each query's first positive only, which is cheaper.
        memory: bytes for the similarities of a block; those of two blocks are in memory at once.
        query_embeddings: `[N, d]` array whose rows are compared with the gallery's in `embeddings`, by cosine
            similarity; None if these are the same.
        share: function from the number of queries to the range of those that this worker counts for. Default: all.
        depths: function from numbers of positives `[B]` to how many of the nearest images matter for the first positive
            `[B]` and for the others `[B]`. Larger ranks need not be exact, only larger than that. None: all matter.
    """
    embeddings = np.asanyarray(embeddings)
    task.check(embeddings)
    vectors = ExactVectors.of(embeddings, distance)
    query_vectors = vectors if query_embeddings is None else ExactVectors.of(query_embeddings)
    # Images of a class lie side by side, so that each class is a slice of the gallery.
    order = task.gallery[np.argsort(task.labels[task.gallery], kind="stable")]
    gallery = _Gallery(vectors.take(order), order, task, depths)
    queries = task.queries[np.argsort(task.labels[task.queries], kind="stable")]
    queries = queries[share(len(queries))]
    size = max(1, min(len(queries), memory // (4 * min(TILE, max(len(order), 1)))))
    blocks = (
        gallery.block(some, query_vectors, first_only) for some in gallery.split(queries, size, memory // POSITIVE)
    )
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as threads:
        # Products use all cores, counts not always: each does while the other does not.
        for block, count in one_ahead(gallery.counts(blocks, size)):
            if count:
                count(threads)
            else:
                yield PositiveRanks.of(block.rows, block.positives, block.ahead)


class _Gallery:
    """The rows that are searched, ordered by class."""

    def __init__(self, vectors, rows, task, depths):
        self.vectors, self.rows, self.task = vectors, rows, task
        labels = task.labels[rows]
        classes = task.labels.max(initial=-1) + 2
        self.starts = np.searchsorted(labels, np.arange(classes))
        floats = FloatCounts(vectors)
        # The fastest first. What one leaves in doubt the next one counts.
        self.levels = [floats, ExactCounts(vectors)]
        if may_use_tensorflow(vectors.vectors):
            from tfdml.evaluation.ranks.half_counts import HalfCounts

            half = HalfCounts.of(floats, depths)
            if half:
                self.levels.insert(0, half)
        self.first_level = 0

    def split(self, queries, size, positives):
        """Yields parts of at most `size` queries that have at most so many positives, if each has as many as any."""
        members = np.diff(self.starts)[self.task.labels[queries]]
        start, size_now = 0, min(size, TRIAL)
        while start < len(queries):
            most = np.maximum.accumulate(members[start : start + size_now])
            fits = np.count_nonzero(most * np.arange(1, len(most) + 1) <= positives)
            yield queries[start : start + max(fits, 1)]
            start, size_now = start + max(fits, 1), size

    def block(self, queries, vectors, first_only):
        """Returns the `QueryBlock` of those queries that have a positive."""
        taken = vectors.take(queries)
        kept, thresholds = [], []
        for first, last in _runs(self.task.labels[queries]):
            found = self._thresholds(queries[first:last], taken.vectors[first:last], taken.offsets[first:last])
            for place, each in enumerate(found, first):
                if len(each):
                    kept.append(place)
                    # A copy, so that the others do not stay in memory.
                    thresholds.append(each[-1:].copy() if first_only else each)
        return QueryBlock.of(queries[kept], taken.vectors[kept], thresholds)

    def _thresholds(self, queries, vectors, offsets):
        """Yields the sorted similarities, less a tie, of the positives of each query, all of one class."""
        members = self.members(self.task.labels[queries[0]])
        counted = self.task.countable(queries, self.rows[members])
        if members == slice(0, len(self.rows)):
            # Without negatives the similarities do not matter.
            yield from map(np.zeros, np.count_nonzero(counted, axis=1))
            return
        similarities = self.vectors.similarities(vectors, members)
        similarities -= self.vectors.ties(offsets, members)
        for each, mask in zip(similarities, counted, strict=True):
            yield np.sort(each[mask])

    def counts(self, blocks, size):
        """Yields each block, of at most `size` queries, with functions that count its negatives, then with None."""
        # While one is filled the other is read.
        spaces = itertools.cycle(np.empty((2, 2 * -(-max(size, 2) * min(TILE, len(self.rows)) // 2)), np.float32))
        for block in filter(len, blocks):
            for start in range(0, len(self.rows), TILE):
                tile = slice(start, min(start + TILE, len(self.rows)))
                for level, part in self._parts(self._with_negatives(block, tile), self.first_level, size):
                    counter = self._counter(level, part, tile, next(spaces))
                    yield block, functools.partial(self._count, level, part, tile, counter, len(block))
            yield block, None

    def _with_negatives(self, block, tile):
        """Returns the queries of a block whose class is not the whole tile."""
        labels = self.task.labels[block.rows]
        return block.take(np.flatnonzero((self.starts[labels] > tile.start) | (self.starts[labels + 1] < tile.stop)))

    def _parts(self, block, first, size):
        """Yields parts of a block and the place of the level, not before the first, that each is counted with."""
        numbers, left = np.array([len(each) for each in block.thresholds], int), np.ones(len(block), bool)
        for place, level in enumerate(self.levels[first:], first):
            own = left & (numbers <= level.most_thresholds)
            left &= ~own
            # Fewer in float64, so that two such parts take no more space than one in float32.
            most = max(1, size // 4) if level.dtype == np.float64 else size
            yield from ((place, part) for part in block.take(np.flatnonzero(own)).parts(most))

    def _counter(self, level, block, tile, space=None):
        """Returns the function that counts negatives of a block in a tile, see `FloatCounts.counter`."""
        counts, shape = self.levels[level], (len(block), tile.stop - tile.start)
        if space is None or counts.dtype is None:
            out = counts.dtype and np.empty(shape, counts.dtype)
        else:
            out = space.view(counts.dtype)[: np.prod(shape)].reshape(shape)
        return counts.counter(block, self.members_within(tile, block), tile, out)

    def _count(self, level, block, tile, counter, size, threads):
        """Adds the negatives of a tile to a part of a block of that size; those in doubt by the levels that follow."""
        left = block.add(counter, threads)
        if len(left) > MOST_LEFT * size:
            self.first_level = max(self.first_level, level + 1)
        for finer, part in self._parts(left, level + 1, -(-size // 2)):
            self._count(finer, part, tile, self._counter(finer, part, tile), size, threads)

    def members(self, label):
        """The slice of the gallery that a class takes."""
        return slice(int(self.starts[label]), int(self.starts[label + 1]))

    def members_within(self, tile, block):
        """The slices of a tile that the classes of a block's queries take."""
        all_of = [self.members(label) for label in self.task.labels[block.rows]]
        return [slice(max(each.start - tile.start, 0), max(each.stop - tile.start, 0)) for each in all_of]


def _runs(labels):
    """Returns the start and end of each run of equal labels."""
    ends = np.flatnonzero(np.diff(labels)) + 1
    return zip([0, *ends], [*ends, len(labels)], strict=True)


def ranks_of_similarities(blocks, task, *, first_only=False):
    """Yields `PositiveRanks` of blocks of queries, as `positive_ranks` does.

    The blocks are rows of queries `[B]` and their similarities `[B, G]` to `task.gallery`, float64, from -1 to 1.
    """
    for rows, similarities in blocks:
        same = task.labels[rows, None] == task.labels[task.gallery]
        counted = same & task.countable(rows, task.gallery)
        kept = np.flatnonzero(counted.any(axis=1))
        if len(kept):
            ahead = []
            for place in kept:
                thresholds = np.sort(similarities[place, counted[place]])[-1 if first_only else 0 :] - TIE
                ahead.append(count_at_least(np.where(same[place], -np.inf, similarities[place]), thresholds))
            yield PositiveRanks.of(rows[kept], counted[kept].sum(axis=1), ahead)
