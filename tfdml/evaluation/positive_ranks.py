"""The rank of every positive of every query, exact, in blocks of queries.

Ranks are counted, not searched: a positive's rank is the number of positives up to it, plus the number of negatives at
least as similar. So no list of nearest neighbors is kept, however large K is.
"""

import concurrent.futures
import itertools
import os

import numpy as np

from tfdml.evaluation.counting import count_at_least
from tfdml.evaluation.exact_vectors import ExactVectors
from tfdml.evaluation.half_counts import HalfCounts
from tfdml.evaluation.one_ahead import one_ahead
from tfdml.evaluation.products import Products
from tfdml.evaluation.query_block import QueryBlock

# Exact similarities that differ by less count as equal: what float32 embeddings of equal images differ by. Euclidean
# distances are compared as half their squares, relative to the squared length of the longest vector.
TIE = 1e-6
# Gallery rows that are compared at once.
TILE = 65536
# Queries of the first block, if products are in half precision.
TRIAL = 256


def positive_ranks(
    embeddings,
    search,
    *,
    distance="cosine",
    first_only=False,
    memory=2**27,
    query_embeddings=None,
    share=range,
    depths=None,
):
    """Yields `PositiveRanks` of blocks of queries; queries without a positive in the gallery are left out.

    A negative that is as similar as a positive, up to `TIE`, ranks before it, so a collapsed embedding scores near 0.
    The ranks depend neither on `memory` nor on the number of threads.

    Args:
        embeddings: `[N, d]` array, finite.
        search: `Search` among its rows.
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
    search.check(embeddings)
    vectors = ExactVectors.of(embeddings, distance)
    query_vectors = vectors if query_embeddings is None else ExactVectors.of(query_embeddings)
    # Images of a class lie side by side, so that each class is a slice of the gallery.
    order = search.gallery[np.argsort(search.labels[search.gallery], kind="stable")]
    gallery = _Gallery(vectors.take(order), order, search, depths)
    queries = search.queries[np.argsort(search.labels[search.queries], kind="stable")]
    queries = queries[share(len(queries))]
    size = max(1, min(len(queries), memory // (4 * min(TILE, max(len(order), 1)))))
    # The first few show whether half precision decides most of them.
    trial = min(size, TRIAL) if gallery.half else 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as threads:
        for part in (queries[:trial], queries[trial:]):
            blocks = (
                gallery.block(part[start : start + size], query_vectors, first_only)
                for start in range(0, len(part), size)
            )
            # Products use all cores, counts not always: each does while the other does not.
            for block, tile, count in one_ahead(gallery.counts(blocks, size)):
                block.add(count, gallery, tile, threads)
                if tile.stop == len(order):
                    yield block.ranks()


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

    def block(self, queries, vectors, first_only):
        """Returns the `QueryBlock` of those queries that have a positive."""
        taken = vectors.take(queries)
        kept, thresholds = [], []
        for first, last in _runs(self.search.labels[queries]):
            found = self._positives(queries[first:last], taken.vectors[first:last])
            for place, similarities in enumerate(found, first):
                if len(similarities):
                    kept.append(place)
                    # In ascending order of similarity.
                    thresholds.append(similarities[-1:] - TIE if first_only else similarities - TIE)
        return QueryBlock.of(queries[kept], taken.vectors[kept], thresholds)

    def _positives(self, queries, vectors):
        """Yields the sorted exact similarities of the positives of each query, all of one class."""
        members = self.members(self.search.labels[queries[0]])
        similarities = self.vectors.similarities(vectors, members)
        counted = self.search.countable(queries, self.rows[members])
        for each, mask in zip(similarities, counted, strict=True):
            yield np.sort(each[mask])

    def counts(self, blocks, size):
        """Yields each block and each slice of the gallery with the function that counts in it, see `QueryBlock.add`.

        Args:
            blocks: iterable of `QueryBlock`.
            size: the most queries a block has.
        """
        # While one is filled the other is read.
        spaces = itertools.cycle(np.empty((2, size, min(TILE, len(self.rows))), np.float32))
        for block in blocks:
            for start in range(0, len(self.rows) if len(block.rows) else 0, TILE):
                tile = slice(start, min(start + TILE, len(self.rows)))
                if self.half:
                    yield block, tile, self.half.counter(block, self.members_within(tile, block), tile)
                else:
                    yield block, tile, self.counter(block, np.arange(len(block.rows)), tile, next(spaces))

    def counter(self, block, queries, tile, space=None):
        """Returns the function from one of some queries of a block to how many negatives precede each threshold."""
        members, shape = self.members_within(tile, block), (len(queries), tile.stop - tile.start)
        out = np.empty(shape, np.float32) if space is None else space[: shape[0], : shape[1]]
        similarities = self.similarities(block.vectors[queries], tile, out)
        rows = dict(zip(queries.tolist(), similarities, strict=True))

        def count(query):
            row = rows[query]
            row[members[query]] = -np.inf

            def exact(places):
                return self.vectors.similarities(block.vectors[query][None], tile.start + places)[0]

            return count_at_least(row, block.thresholds[query], self.error, exact)

        return count

    def similarities(self, vectors, tile, out):
        """Returns approximate similarities of queries `[B, d]` to the rows of a slice, in `out`."""
        self.products(vectors, tile, out)
        if self.has_offsets:
            out -= self.vectors.offsets[tile].astype(np.float32)
        return out

    def members(self, label):
        """The slice of the gallery that a class takes."""
        return slice(int(self.starts[label]), int(self.starts[label + 1]))

    def members_within(self, tile, block):
        """The slices of a tile that the classes of a block's queries take."""
        all_of = [self.members(label) for label in self.search.labels[block.rows]]
        return [slice(max(each.start - tile.start, 0), max(each.stop - tile.start, 0)) for each in all_of]


def _runs(labels):
    """Returns the start and end of each run of equal labels."""
    ends = np.flatnonzero(np.diff(labels)) + 1
    return zip([0, *ends], [*ends, len(labels)], strict=True)
