"""Near-duplicates in an index: pairs, and groups of connected pairs."""

import dataclasses
from collections import Counter

import numpy as np

from tfdml.files.shards import EmbeddingShards
from tfdml.serving.index.neighbor import Neighbor

# Neighbors that are searched first; more for an image whose neighbors are all duplicates.
NEIGHBORS = 8


@dataclasses.dataclass(frozen=True)
class DuplicateGroup:
    """Images that are connected by near-duplicates; the similarity of each is that to the nearest one of the group.

    Args:
        representative: the `Neighbor` with the most duplicates, of several the most similar one.
        others: list of the other `Neighbor`s.
    """

    representative: Neighbor
    others: list[Neighbor]


def duplicates(searcher, threshold):
    """Returns the pairs of images with at least this similarity, `[(Neighbor, Neighbor)]`, the most similar first.

    Each image is searched in the index, so that of an approximate one some pairs can be missing. Both of a pair have
    the similarity of the pair.

    Args:
        searcher: `Searcher`.
        threshold: smallest similarity.
    """
    return [tuple(searcher.image(row, similarity) for row in pair) for pair, similarity in _pairs(searcher, threshold)]


def duplicate_groups(searcher, threshold):
    """Returns the `DuplicateGroup`s of images that pairs of `duplicates` connect, the largest first.

    Args:
        searcher: `Searcher`.
        threshold: smallest similarity of a pair.
    """
    pairs = _pairs(searcher, threshold)
    parents, partners, nearest = {}, Counter(), {}
    for pair, similarity in pairs:
        first, second = (_root(parents, row) for row in pair)
        parents[max(first, second)] = min(first, second)
        partners.update(pair)
        for row in pair:
            # Pairs are in the order of their similarities.
            nearest.setdefault(row, similarity)
    groups = {}
    for row in sorted(partners):
        groups.setdefault(_root(parents, row), []).append(row)
    found = []
    for rows in sorted(groups.values(), key=lambda rows: (-len(rows), rows)):
        chosen = max(rows, key=lambda row: (partners[row], nearest[row], -row))
        images = {row: searcher.image(row, nearest[row]) for row in rows}
        found.append(DuplicateGroup(images[chosen], [images[row] for row in rows if row != chosen]))
    return found


def _root(parents, row):
    """Returns the row that stands for the group of a row."""
    while parents.setdefault(row, row) != row:
        parents[row] = parents[parents[row]]
        row = parents[row]
    return row


def _pairs(searcher, threshold):
    """Returns pairs of rows and their similarities, `[((row, row), similarity)]`, the most similar first."""
    if searcher.manifest["metric"] == "euclidean" and threshold > 0:
        raise ValueError(
            f"The similarity is minus a distance, which is at most 0; received a threshold of {threshold:g}."
        )
    found, count, live = {}, len(searcher), np.flatnonzero(~searcher.rows.deleted)
    first = 0
    for embeddings in _embeddings(searcher, searcher.rows.ids[live]):
        rows, k = np.arange(len(embeddings)), NEIGHBORS
        while len(rows):
            similarities, others = searcher.nearest(embeddings[rows], k)
            enough = similarities >= threshold
            for place, column in zip(*np.nonzero(enough & (others >= 0)), strict=True):
                pair = sorted((int(live[first + rows[place]]), int(others[place, column])))
                if pair[0] != pair[1]:
                    found[tuple(pair)] = float(similarities[place, column])
            rows, k = rows[enough[:, -1] & (k < count)], 4 * k
        first += len(embeddings)
    return sorted(found.items(), key=lambda item: (-item[1], item[0]))


def _embeddings(searcher, ids):
    """Yields blocks `[N, D]` of the embeddings of the images of the index, in order."""
    shards, first = EmbeddingShards(searcher.embeddings), 0
    for block in shards.blocks():
        # Besides there are those of deleted images, and those of an interrupted --add.
        kept = np.isin(block.ids, ids)
        expected = ids[first : first + np.count_nonzero(kept)]
        if not np.array_equal(block.ids[kept], expected):
            break
        yield block.embeddings[kept]
        first += len(expected)
    if first != len(ids):
        raise ValueError(f"{shards.folder} does not have the embeddings of all images of the index. Make it anew.")
