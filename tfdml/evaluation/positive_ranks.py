"""The rank of every positive of every query, exact, in blocks of queries.

Ranks are counted, not searched: a positive's rank is the number of positives up to it, plus the number of negatives at
least as similar. So no list of nearest neighbors is kept, however large K is.
"""

import concurrent.futures
import dataclasses
import functools
import itertools
import os

import numpy as np

from tfdml.evaluation.counting import count_at_least
from tfdml.evaluation.exact_vectors import ExactVectors
from tfdml.evaluation.half_counts import HalfCounts
from tfdml.evaluation.products import Products

# Exact similarities that differ by less count as equal: what float32 embeddings of equal images differ by.
TIE = 1e-6
# Gallery rows that are compared at once.
TILE = 65536
# Queries that a thread takes at once.
PART = 64
# Queries of the first block, if products are in half precision.
TRIAL = 256
# If more of a block must be counted in float32, all other blocks are.
MOST_LEFT = 0.25


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
    def of(cls, rows, positives, ahead):
        """Creates the ranks of queries from the number of negatives ahead of each positive.

        Args:
            rows: `[B]` rows of the queries.
            positives: `[B]` number of positives of each.
            ahead: for each query, the numbers of negatives ahead of its positives, the farthest first.
        """
        ranks = np.zeros((len(ahead), max(map(len, ahead))), np.int64)
        for query, each in enumerate(ahead):
            ranks[query, : len(each)] = each[::-1] + np.arange(1, len(each) + 1)
        return cls(rows, positives, ranks)

    @property
    def first(self):
        """`[B]` ranks of each query's first positive."""
        return self.ranks[:, 0]

    def precisions(self):
        """`[B, P]`: the precision at the rank of each positive; 0 behind a query's last."""
        count = np.arange(1, self.ranks.shape[1] + 1)
        return np.where(self.ranks > 0, count / np.maximum(self.ranks, 1), 0.0)

    def mean_over_positives(self, values):
        """Returns the mean `[B]` of a value for each positive, `[B, P]` with zeros behind a query's last."""
        # One after another, so that the zeros, as many as the block has it, change no bit.
        return np.cumsum(values, axis=1)[:, -1] / self.positives


def positive_ranks(
    embeddings,
    search,
    *,
    distance="cosine",
    first_only=False,
    tie=TIE,
    memory=2**27,
    query_embeddings=None,
    share=range,
    depths=None,
):
    """Yields `PositiveRanks` of blocks of queries; queries without a positive in the gallery are left out.

    A negative that is as similar as a positive, up to `tie`, ranks before it, so a collapsed embedding scores near 0.
    The ranks depend neither on `memory` nor on the number of threads.

    Args:
        embeddings: `[N, d]` array, finite.
        search: `Search` among its rows.
        distance: `cosine` or `euclidean`.
        first_only: True for the rank of each query's first positive only, which is cheaper.
        tie: similarities that differ by less count as equal. Euclidean distances are compared as half their squares,
            relative to the squared length of the longest vector.
        memory: bytes for the similarities of a block.
        query_embeddings: `[N, d]` array whose rows are compared with the gallery's in `embeddings`, by cosine
            similarity; None if these are the same.
        share: function from the number of queries to the range of those that this worker counts for. Default: all.
        depths: function from numbers of positives `[B]` to how many of the nearest images matter for the first positive
            `[B]` and for the others `[B]`. Larger ranks need not be exact, only larger than that. None: all matter.
    """
    embeddings = np.asanyarray(embeddings)
    search.check(embeddings)
    vectors = ExactVectors.of(embeddings, distance)
    query_vectors = vectors if query_embeddings is None else ExactVectors.of(query_embeddings)
    # Images of a class lie side by side, so that each class is a slice of the gallery.
    order = search.gallery[np.argsort(search.labels[search.gallery], kind="stable")]
    gallery = _Gallery(vectors.take(order), order, search, depths)
    queries = search.queries[np.argsort(search.labels[search.queries], kind="stable")]
    queries = queries[share(len(queries))]
    size = max(1, min(len(queries), memory // (4 * min(TILE, max(len(order), 1)))))
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as threads:
        start = 0
        while start < len(queries):
            # The first few show whether half precision decides most of them.
            end = start + (min(size, TRIAL) if gallery.half and not start else size)
            block = gallery.block(queries[start:end], query_vectors, first_only, tie)
            start = end
            if len(block.rows):
                yield block.ranks(gallery, threads)


class _Gallery:
    """The rows that are searched, ordered by class."""

    def __init__(self, vectors, rows, search, depths):
        self.vectors, self.rows, self.search = vectors, rows, search
        self.products = Products(vectors.vectors)
        labels = search.labels[rows]
        classes = search.labels.max(initial=-1) + 2
        self.starts = np.searchsorted(labels, np.arange(classes))
        # Each of d products and sums rounds once; the offset, the threshold and the result some more.
        self.has_offsets = bool(vectors.offsets.any())
        longest = 1.001 + np.abs(vectors.offsets).max(initial=0.0)
        self.error = (vectors.vectors.shape[1] + 8) * 2.0**-24 * longest * 1.001
        self.half = HalfCounts.of(vectors, self.error, depths)

    def block(self, queries, vectors, first_only, tie):
        """Returns the `_Block` of those queries that have a positive."""
        taken = vectors.take(queries)
        kept, positives, thresholds = [], [], []
        for first, last in _runs(self.search.labels[queries]):
            found = self._positives(queries[first:last], taken.vectors[first:last])
            for place, similarities in enumerate(found, first):
                if len(similarities):
                    kept.append(place)
                    positives.append(len(similarities))
                    # In ascending order of similarity.
                    thresholds.append(similarities[-1:] - tie if first_only else similarities - tie)
        return _Block(queries[kept], taken.vectors[kept], np.array(positives, np.int64), thresholds)

    def _positives(self, queries, vectors):
        """Yields the sorted exact similarities of the positives of each query, all of one class."""
        members = self.members(self.search.labels[queries[0]])
        similarities = self.vectors.similarities(vectors, members)
        counted = self.search.countable(queries, self.rows[members])
        for each, mask in zip(similarities, counted, strict=True):
            yield np.sort(each[mask])

    def similarities(self, vectors, tile, out):
        """Returns approximate similarities of queries `[B, d]` to the rows of a slice, in `out`."""
        self.products(vectors, tile, out)
        if self.has_offsets:
            out -= self.vectors.offsets[tile].astype(np.float32)
        return out

    def members(self, label):
        """The slice of the gallery that a class takes."""
        return slice(int(self.starts[label]), int(self.starts[label + 1]))

    def members_within(self, tile, row):
        """The slice of a tile that the class of a row takes."""
        members = self.members(self.search.labels[row])
        return slice(max(members.start - tile.start, 0), max(members.stop - tile.start, 0))


@dataclasses.dataclass(frozen=True)
class _Block:
    """Queries with a positive, and the thresholds that their negatives are compared with."""

    rows: np.ndarray
    vectors: np.ndarray
    positives: np.ndarray
    thresholds: list

    def ranks(self, gallery, threads):
        """Returns the `PositiveRanks`, counted in a gallery by a pool of threads."""
        ahead = [np.zeros(len(each), np.int64) for each in self.thresholds]
        space = np.empty((len(self.rows), min(TILE, len(gallery.rows))), np.float32)
        for start in range(0, len(gallery.rows), TILE):
            tile = slice(start, min(start + TILE, len(gallery.rows)))
            members, left = [gallery.members_within(tile, row) for row in self.rows], np.arange(len(self.rows))
            if gallery.half:
                left = _add(ahead, left, gallery.half.counter(self, members, tile), threads)
                if len(left) > MOST_LEFT * len(self.rows):
                    gallery.half = None
            if len(left):
                similarities = gallery.similarities(self.vectors[left], tile, space[: len(left), : tile.stop - start])
                rows = dict(zip(left.tolist(), similarities, strict=True))
                _add(ahead, left, functools.partial(self._count, rows, members, tile, gallery), threads)
        return PositiveRanks.of(self.rows, self.positives, ahead)

    def _count(self, rows, members, tile, gallery, query):
        """Returns how many negatives of a tile are as similar as each threshold of a query."""
        row = rows[query]
        row[members[query]] = -np.inf

        def exact(places):
            return gallery.vectors.similarities(self.vectors[query][None], tile.start + places)[0]

        return count_at_least(row, self.thresholds[query], gallery.error, exact)


def _add(ahead, queries, count, threads):
    """Adds counts to those of queries, by a pool of threads; returns the queries whose count is None."""
    parts, left = np.array_split(queries, -(-len(queries) // PART)), []
    counts = threads.map(lambda part: [count(query) for query in part.tolist()], parts)
    for query, more in zip(queries.tolist(), itertools.chain.from_iterable(counts), strict=True):
        if more is None:
            left.append(query)
        else:
            ahead[query] += more
    return np.array(left, np.int64)


def _runs(labels):
    """Returns the start and end of each run of equal labels."""
    ends = np.flatnonzero(np.diff(labels)) + 1
    return zip([0, *ends], [*ends, len(labels)], strict=True)
