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
        positives: `[B]` number of positives of each query, at least 1.
        ranks: `[B, P]` integers. The rank of each positive, starting at 1, in ascending order, padded with 0. If only
            the first positive was requested, P is 1.
    """

    rows: np.ndarray
    positives: np.ndarray
    ranks: np.ndarray

    @classmethod
    def of(cls, rows: np.ndarray, positives: np.ndarray, ahead: Sequence[np.ndarray]) -> Self:
        """Creates the ranks of queries from the number of negatives ahead of each positive, farthest positive first."""
        ranks = np.zeros((len(ahead), max(map(len, ahead))), np.int64)
        places = np.arange(1, ranks.shape[1] + 1)
        for row, each in zip(ranks, ahead, strict=True):
            np.add(each[::-1], places[: len(each)], out=row[: len(each)])
        return cls(rows, positives, ranks)

    @property
    def first(self) -> np.ndarray:
        """`[B]` rank of each query's first positive."""
        return self.ranks[:, 0]

    def precisions(self) -> np.ndarray:
        """Returns `[B, P]`, the precision at the rank of each positive, padded with 0."""
        precisions = np.arange(1, self.ranks.shape[1] + 1) / np.maximum(self.ranks, 1)
        precisions[self.ranks == 0] = 0.0
        return precisions

    def mean_over_positives(self, values: np.ndarray) -> np.ndarray:
        """Returns the mean `[B]` of a value for each positive, `[B, P]` padded with 0."""
        # cumsum adds one value after another, so that the number of padding zeros cannot change the result.
        return np.cumsum(values, axis=1)[:, -1] / self.positives


# Number of queries that a thread counts at once.
PART = 64


@dataclasses.dataclass(frozen=True)
class QueryBlock:
    """Queries with a positive, and how many negatives were found ahead of each positive.

    For each query, `thresholds` are the similarities of its positives in ascending order, which negatives are compared
    with. `ahead` is the number of negatives that are as similar as each of them.
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
        """Returns the block of some of the queries, which shares the counts of this block."""
        if len(places) == len(self):
            return self
        thresholds, ahead = ([each[place] for place in places] for each in (self.thresholds, self.ahead))
        return QueryBlock(self.rows[places], self.vectors[places], self.positives[places], thresholds, ahead)

    def parts(self, size):
        """Yields blocks of at most `size` queries each."""
        for start in range(0, len(self), size):
            yield self.take(np.arange(start, min(start + size, len(self))))

    def add(self, count, threads):
        """Counts more negatives with a pool of threads. Returns the block of the queries with a count of None.

        `count` maps the place of a query to how many negatives are as similar as each threshold, or to None if that
        requires more exact similarities.
        """
        parts, left = np.array_split(np.arange(len(self)), -(-len(self) // PART)), []
        counts = threads.map(lambda part: [count(query) for query in part.tolist()], parts)
        for query, more in enumerate(itertools.chain.from_iterable(counts)):
            if more is None:
                left.append(query)
            else:
                # In place, because parts of a block share this array.
                self.ahead[query] += more
        return self.take(np.array(left, np.int64))


def depths_of(metrics):
    """Returns the function `depths` of `positive_ranks`, or None if the ranks of all positives matter."""
    of_all = [metric for metric in metrics if not metric.first_only]
    if of_all and np.isinf(deepest(of_all, np.ones(1))).any():
        return None
    return lambda positives: (deepest(metrics, positives), deepest(of_all, positives))


def deepest(metrics, positives):
    """Returns how many of the nearest images determine any of the rank metrics, for numbers of positives `[B]`."""
    needed = [np.broadcast_to(metric.depth(positives), positives.shape) for metric in metrics]
    return np.max(needed, axis=0) if needed else np.zeros(positives.shape)


END = object()


def one_ahead(values):
    """Yields the values of an iterable while a thread computes the next one."""
    values = iter(values)
    with concurrent.futures.ThreadPoolExecutor(1) as thread:
        following = thread.submit(next, values, END)
        while (value := following.result()) is not END:
            following = thread.submit(next, values, END)
            yield value


# Number of gallery rows that are compared at once.
TILE = 65536
# Number of queries in the first block, which shows how precise products must be to decide most queries.
TRIAL = 256
# If more of a block must be counted again with more precise products, all other blocks start with these.
MOST_LEFT = 0.25
# Bytes per positive for its similarity and rank, until the metrics are computed.
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
    """Yields `PositiveRanks` of blocks of queries, without queries that have no positive in the gallery.

    A negative that is as similar as a positive, up to a tie (`ExactVectors.ties`), ranks before it, so a collapsed
    embedding has a score near 0. The ranks depend neither on `memory` nor on the number of threads. Except for a small
    factor, the time depends only on the numbers of queries and images.

    Args:
        embeddings: `[N, d]` array of finite numbers.
        task: `RetrievalTask` on its rows.
        distance: `"cosine"` or `"euclidean"`. Defaults to `"cosine"`.
        first_only: Boolean. Whether to compute only the rank of each query's first positive, which is faster. Defaults
            to `False`.
        memory: Integer. Bytes for the similarities of a block. Two blocks are in memory at once. Defaults to `2**27`.
        query_embeddings: `[N, d]` array of embeddings that are used for queries instead of `embeddings`, compared by
            cosine similarity. If `None`, `embeddings` are used for both. Defaults to `None`.
        share: Function that maps the number of queries to the range of those that this worker counts. Defaults to
            `range`, which means all.
        depths: Function that maps numbers of positives `[B]` to how many of the nearest images matter for the first
            positive `[B]` and for the others `[B]`. Deeper ranks need not be exact, but must be deeper as well. If
            `None`, all ranks are exact. Defaults to `None`.
    """
    embeddings = np.asanyarray(embeddings)
    task.check(embeddings)
    vectors = ExactVectors.of(embeddings, distance)
    query_vectors = vectors if query_embeddings is None else ExactVectors.of(query_embeddings)
    # Images of a class are adjacent, so that each class is a slice of the gallery.
    order = task.gallery[np.argsort(task.labels[task.gallery], kind="stable")]
    gallery = _Gallery(vectors.take(order), order, task, depths)
    queries = task.queries[np.argsort(task.labels[task.queries], kind="stable")]
    queries = queries[share(len(queries))]
    size = max(1, min(len(queries), memory // (4 * min(TILE, max(len(order), 1)))))
    blocks = (
        gallery.block(some, query_vectors, first_only) for some in gallery.split(queries, size, memory // POSITIVE)
    )
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as threads:
        # Products use all cores, but counts do not always, so the next products are computed during the counts.
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
        # The fastest level is first. Each level counts what the previous one leaves in doubt.
        self.levels = [floats, ExactCounts(vectors)]
        if may_use_tensorflow(vectors.vectors):
            from tfdml.evaluation.ranks.half_counts import HalfCounts

            half = HalfCounts.of(floats, depths)
            if half:
                self.levels.insert(0, half)
        self.first_level = 0

    def split(self, queries, size, positives):
        """Yields parts of at most `size` queries, and of at most this many positives if classes were equally large."""
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
                    # Copy the last one, so that the others do not stay in memory.
                    thresholds.append(each[-1:].copy() if first_only else each)
        return QueryBlock.of(queries[kept], taken.vectors[kept], thresholds)

    def _thresholds(self, queries, vectors, offsets):
        """Yields the sorted similarities, minus a tie, of the positives of each query. All queries are of one class."""
        members = self.members(self.task.labels[queries[0]])
        counted = self.task.countable(queries, self.rows[members])
        if members == slice(0, len(self.rows)):
            # Without negatives, the similarities do not matter.
            yield from map(np.zeros, np.count_nonzero(counted, axis=1))
            return
        similarities = self.vectors.similarities(vectors, members)
        similarities -= self.vectors.ties(offsets, members)
        for each, mask in zip(similarities, counted, strict=True):
            yield np.sort(each[mask])

    def counts(self, blocks, size):
        """Yields each block, of at most `size` queries, with functions that count its negatives, and then with None."""
        # One is filled while the other is read.
        spaces = itertools.cycle(np.empty((2, 2 * -(-max(size, 2) * min(TILE, len(self.rows)) // 2)), np.float32))
        for block in filter(len, blocks):
            for start in range(0, len(self.rows), TILE):
                tile = slice(start, min(start + TILE, len(self.rows)))
                for level, part in self._parts(self._with_negatives(block, tile), self.first_level, size):
                    counter = self._counter(level, part, tile, next(spaces))
                    yield block, functools.partial(self._count, level, part, tile, counter, len(block))
            yield block, None

    def _with_negatives(self, block, tile):
        """Returns the queries of a block for which the tile contains images of other classes."""
        labels = self.task.labels[block.rows]
        return block.take(np.flatnonzero((self.starts[labels] > tile.start) | (self.starts[labels + 1] < tile.stop)))

    def _parts(self, block, first, size):
        """Yields parts of a block with the place of the level that counts each, which is `first` or later."""
        numbers, left = np.array([len(each) for each in block.thresholds], int), np.ones(len(block), bool)
        for place, level in enumerate(self.levels[first:], first):
            own = left & (numbers <= level.most_thresholds)
            left &= ~own
            # Fewer in float64, so that two such parts need no more space than one in float32.
            most = max(1, size // 4) if level.dtype == np.float64 else size
            yield from ((place, part) for part in block.take(np.flatnonzero(own)).parts(most))

    def _counter(self, level, block, tile, space=None):
        """Returns the function that counts the negatives of a block in a tile; see `FloatCounts.counter`."""
        counts, shape = self.levels[level], (len(block), tile.stop - tile.start)
        if space is None or counts.dtype is None:
            out = counts.dtype and np.empty(shape, counts.dtype)
        else:
            out = space.view(counts.dtype)[: np.prod(shape)].reshape(shape)
        return counts.counter(block, self.members_within(tile, block), tile, out)

    def _count(self, level, block, tile, counter, size, threads):
        """Counts the negatives of a tile for a part of a block of that size. Later levels count those in doubt."""
        left = block.add(counter, threads)
        if len(left) > MOST_LEFT * size:
            self.first_level = max(self.first_level, level + 1)
        for finer, part in self._parts(left, level + 1, -(-size // 2)):
            self._count(finer, part, tile, self._counter(finer, part, tile), size, threads)

    def members(self, label):
        """Returns the slice of the gallery that contains a class."""
        return slice(int(self.starts[label]), int(self.starts[label + 1]))

    def members_within(self, tile, block):
        """Returns the slices of a tile that contain the classes of a block's queries."""
        all_of = [self.members(label) for label in self.task.labels[block.rows]]
        return [slice(max(each.start - tile.start, 0), max(each.stop - tile.start, 0)) for each in all_of]


def _runs(labels):
    """Returns the start and end of each run of equal labels."""
    ends = np.flatnonzero(np.diff(labels)) + 1
    return zip([0, *ends], [*ends, len(labels)], strict=True)


def ranks_of_similarities(blocks, task, *, first_only=False):
    """Yields `PositiveRanks` of blocks of queries, as `positive_ranks` does.

    Each block is rows of queries `[B]` and their similarities `[B, G]` to `task.gallery`, float64 between -1 and 1.
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
