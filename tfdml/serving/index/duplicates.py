"""Pairs of near-duplicates in an index."""

import numpy as np

from tfdml.files.embedding_shards import EmbeddingShards

# Neighbors that are searched first; more for an image whose neighbors are all duplicates.
NEIGHBORS = 8


def duplicates(searcher, threshold):
    """Returns the pairs of images with at least this similarity, `[(Neighbor, Neighbor)]`, the most similar first.

    Each image is searched in the index, so that of an approximate one some pairs can be missing. Both of a pair have
    the similarity of the pair.

    Args:
        searcher: `Searcher`.
        threshold: smallest similarity.
    """
    found, first, count = {}, 0, len(searcher)
    for embeddings in _embeddings(searcher):
        rows, k = np.arange(len(embeddings)), NEIGHBORS
        while len(rows):
            similarities, others = searcher.nearest(embeddings[rows], k)
            enough = similarities >= threshold
            for place, column in zip(*np.nonzero(enough & (others >= 0)), strict=True):
                pair = sorted((first + int(rows[place]), int(others[place, column])))
                if pair[0] != pair[1]:
                    found[tuple(pair)] = float(similarities[place, column])
            rows, k = rows[enough[:, -1] & (k < count)], 4 * k
        first += len(embeddings)
    ordered = sorted(found.items(), key=lambda item: (-item[1], item[0]))
    return [tuple(searcher.image(row, similarity) for row in pair) for pair, similarity in ordered]


def _embeddings(searcher):
    """Yields blocks `[N, D]` of the embeddings of all rows of the index, in order."""
    shards, first = EmbeddingShards(searcher.folder.embeddings), 0
    for block in shards.blocks():
        # An interrupted --add has embeddings beyond those in the index.
        ids = searcher.ids[first : first + len(block.ids)]
        _check(shards, np.array_equal(block.ids[: len(ids)], ids))
        yield block.embeddings[: len(ids)]
        first += len(ids)
    _check(shards, first == len(searcher))


def _check(shards, is_same):
    if not is_same:
        raise ValueError(
            f"{shards.folder} has embeddings of other images than the index: deleting was interrupted. Repeat it."
        )
