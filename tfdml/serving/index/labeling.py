"""Labels images by their nearest neighbors, and finds near-duplicates."""

import dataclasses
import filecmp
import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from tfdml.files.shards import EmbeddingShards
from tfdml.run.experiment.threshold import Threshold, for_people
from tfdml.serving.index.stores.folder_store import FolderStore
from tfdml.serving.index.stores.store import Neighbor

# Divides the Euclidean distance of equal images, of embeddings of unit length: rounding alone gives about half of it.
LEAST_DISTANCE = 1e-3


def vote(neighbors, metric="cosine"):
    """Returns the label with the most votes, and the similarity of the nearest neighbor that has it.

    A vote counts as much as the inverse of the Euclidean distance, of embeddings of unit length if the similarity is a
    cosine. So the same image wins against any number of others, and many of about one distance are counted.

    Neighbors, the nearest first, do not vote without a label. If none has a label, it is `None`, and the similarity
    that of the nearest, or -inf.
    """
    votes = Counter()
    for each in neighbors:
        if each.label is not None:
            votes[each.label] += 1 / max(_distance(each.similarity, metric), LEAST_DISTANCE)
    if not votes:
        return None, neighbors[0].similarity if neighbors else -np.inf
    label = max(votes, key=votes.get)
    return label, next(each.similarity for each in neighbors if each.label == label)


def _distance(similarity, metric):
    """Returns the Euclidean distance of a similarity, of vectors of unit length if it is a cosine."""
    return for_people(similarity, metric) if metric == "euclidean" else math.sqrt(max(2 - 2 * similarity, 0))


def calibrate(votes, labels, precision):
    """Finds the threshold that labels the most validation images with at least a wanted precision, in (0, 1].

    Of each image there are what `vote` returns, and its label. Images of classes that the index does not have should be
    among them, because a label is wrong for each.

    Returns a `Threshold`, with what is known of it: `threshold`, `precision`, the fraction of the images with a label
    whose label is right, `labeled`, the fraction that gets one, and `images`, the number of validation images.
    """
    similarities = np.array([similarity for _, similarity in votes])
    right = np.array([label == own for (label, _), own in zip(votes, labels, strict=True)])
    order = np.argsort(-similarities, kind="stable")
    similarities, right = similarities[order], right[order]
    precisions = np.cumsum(right) / np.arange(1, len(right) + 1)
    # Images of equal similarity get a label together.
    last_of_equals = np.append(similarities[1:] < similarities[:-1], True) & np.isfinite(similarities)
    places = np.flatnonzero(last_of_equals & (precisions >= precision))
    if not len(places):
        best = precisions[last_of_equals].max(initial=0.0)
        raise ValueError(
            f"No threshold reaches a precision of {precision} on {len(votes)} validation images; the highest is "
            f"{best:.3f}. Ask for less, or use a better model."
        )
    place = places[-1]
    fitted = {"threshold": float(similarities[place]), "precision": float(precisions[place])}
    return Threshold.of({**fitted, "labeled": float((place + 1) / len(votes)), "images": len(votes)})


@dataclasses.dataclass(frozen=True)
class Labeled:
    """An image and its label.

    Args:
        path: its file; of another image, such as an array, `Image 0` and so on.
        label: None where it is unknown.
        similarity: that of the nearest neighbor with the label that won the vote, see `vote`; None if the image cannot
            be read.
    """

    path: str
    label: str | None
    similarity: float | None

    def in_json(self) -> dict[str, Any]:
        """Returns a dictionary for JSON, which has no -inf: None takes its place."""
        return dataclasses.asdict(self) | {"similarity": None if self.similarity == -np.inf else self.similarity}


def label_images(searcher, images, k, threshold):
    """Returns a list of `Labeled` of images, by the vote of their k nearest neighbors in the index of a `Searcher`.

    The images are as `Searcher.search` takes them, and those of the index have labels.
    """
    found = []
    for place, (image, each) in enumerate(zip(images, _neighbors(searcher, images, k), strict=True)):
        label, similarity = (None, None) if each is None else vote(each, searcher.manifest["metric"])
        near = similarity is not None and threshold.accepts(similarity)
        path = str(image) if isinstance(image, str | Path) else f"Image {place}"
        found.append(Labeled(path, label if near else None, similarity))
    return found


def calibrated_on(searcher, images, k, precision):
    """Returns the `Threshold` that `calibrate` finds for an `ImageList` of validation images, each with a label.

    Those that cannot be read are left out. It also says how many of the others are `indexed`, too.
    """
    if None in images.labels:
        raise ValueError(f"{images.paths[images.labels.index(None)]} has no label. Put it into a folder of that name.")
    votes, labels, indexed, metric = [], [], 0, searcher.manifest["metric"]
    # More than k, of which those are left that are other images.
    found = _neighbors(searcher, images.paths, 2 * k)
    for path, label, neighbors in zip(images.paths, images.labels, found, strict=True):
        if neighbors is not None:
            others = [each for each in neighbors if not _is_same(path, each, metric)]
            indexed += len(others) < len(neighbors)
            votes.append(vote(others[:k], metric))
            labels.append(label)
    return Threshold.of({**calibrate(votes, labels, precision).fitted, "indexed": indexed})


def _is_same(path, neighbor, metric):
    """Whether a neighbor is the image itself: has its embedding, or its content, where similarities are approximate."""
    if _distance(neighbor.similarity, metric) <= LEAST_DISTANCE:
        return True
    try:
        return filecmp.cmp(path, neighbor.path, shallow=False)
    except OSError:
        # The index need not have its images beside it.
        return False


def _neighbors(searcher, images, k):
    """Returns the neighbors of each image, or None for those that cannot be read."""
    if not searcher.has_labels():
        raise ValueError(f"The images of the index {searcher.name} have no labels.")
    embeddings, valid = searcher.embed_readable(images)
    neighbors = searcher.search_vectors(embeddings, k)
    return [each if readable else None for each, readable in zip(neighbors, valid, strict=True)]


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
    the similarity of the pair. The index of the searcher is a folder.
    """
    pairs = _pairs(searcher.store, threshold)
    return [tuple(searcher.store.image(row, similarity) for row in pair) for pair, similarity in pairs]


def duplicate_groups(searcher, threshold):
    """Returns the `DuplicateGroup`s of images that pairs of `duplicates` connect, the largest first."""
    pairs = _pairs(searcher.store, threshold)
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
        images = {row: searcher.store.image(row, nearest[row]) for row in rows}
        found.append(DuplicateGroup(images[chosen], [images[row] for row in rows if row != chosen]))
    return found


def _root(parents, row):
    """Returns the row that stands for the group of a row."""
    while parents.setdefault(row, row) != row:
        parents[row] = parents[parents[row]]
        row = parents[row]
    return row


def _pairs(store, threshold):
    """Returns pairs of rows and their similarities, `[((row, row), similarity)]`, the most similar first."""
    if not isinstance(store, FolderStore):
        raise ValueError(f"Duplicates are found in an index that is a folder, and {store} is none.")
    if store.manifest["metric"] == "euclidean" and threshold > 0:
        raise ValueError(
            f"The similarity is minus a distance, which is at most 0; received a threshold of {threshold:g}."
        )
    live = np.flatnonzero(~store.rows.deleted)
    found, first = {}, 0
    for embeddings in _embeddings(store, store.rows.ids[live]):
        rows, k = np.arange(len(embeddings)), NEIGHBORS
        while len(rows):
            similarities, others = store.nearest(embeddings[rows], k)
            enough = similarities >= threshold
            for place, column in zip(*np.nonzero(enough & (others >= 0)), strict=True):
                pair = sorted((int(live[first + rows[place]]), int(others[place, column])))
                if pair[0] != pair[1]:
                    found[tuple(pair)] = float(similarities[place, column])
            rows, k = rows[enough[:, -1] & (k < len(live))], 4 * k
        first += len(embeddings)
    return sorted(found.items(), key=lambda item: (-item[1], item[0]))


def _embeddings(store, ids):
    """Yields blocks `[N, D]` of the embeddings of the images of the index, in order."""
    shards, first = EmbeddingShards(store.embeddings), 0
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
