"""Labels images by their nearest neighbors and finds near-duplicates."""

import dataclasses
import filecmp
import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from pipelines.boxes import parted
from pipelines.captions import TEMPLATE, filled
from tfdml.files.shards import EmbeddingShards
from tfdml.neighbors.nearest import unit_length
from tfdml.run.experiment.threshold import Threshold, for_people
from tfdml.serving.index.stores.folder_store import FolderStore
from tfdml.serving.index.stores.store import Neighbor
from tfdml.serving.model_card import templates_of

# Smallest Euclidean distance between L2-normalized embeddings that counts. Rounding alone causes about half of it
# between equal images.
LEAST_DISTANCE = 1e-3


def vote(neighbors, metric="cosine"):
    """Returns the label with the most votes, and the similarity of the nearest neighbor that has it.

    The weight of a vote is the inverse of the Euclidean distance (between L2-normalized embeddings if the similarity is
    a cosine). So a copy of the image outvotes any number of other neighbors, and neighbors at about the same distance
    count equally.

    The neighbors are sorted, the nearest first. Neighbors without a label do not vote. If no neighbor has a label, the
    label is `None`, and the similarity is the nearest neighbor's, or -inf without neighbors.
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
    """Returns the Euclidean distance of a similarity. For a cosine, it is the distance of L2-normalized vectors."""
    return for_people(similarity, metric) if metric == "euclidean" else math.sqrt(max(2 - 2 * similarity, 0))


def calibrate(votes, labels, precision):
    """Finds the threshold that labels the most validation images with at least the wanted precision, in (0, 1].

    For each image, `votes` has the result of `vote`, and `labels` its label. Include images of classes that are not in
    the index, because every label for them is wrong.

    Returns a `Threshold` with facts about its fit: `threshold`; `precision`, the fraction of labeled images with the
    right label; `labeled`, the fraction of images that get a label; and `images`, the number of validation images.
    """
    similarities = np.array([similarity for _, similarity in votes])
    right = np.array([label == own for (label, _), own in zip(votes, labels, strict=True)])
    order = np.argsort(-similarities, kind="stable")
    similarities, right = similarities[order], right[order]
    precisions = np.cumsum(right) / np.arange(1, len(right) + 1)
    # Images with equal similarities are all labeled or all unlabeled.
    last_of_equals = np.append(similarities[1:] < similarities[:-1], True) & np.isfinite(similarities)
    places = np.flatnonzero(last_of_equals & (precisions >= precision))
    if not len(places):
        received = [label for label, _ in votes if label is not None]
        if received and not {*received} & {*labels}:
            raise ValueError(
                f"No label of the {len(votes)} validation images is correct. Their folders must be named like labels "
                f"in the index. Received: images in the folder {labels[0]!r}, which get labels such as {received[0]!r}."
            )
        best = precisions[last_of_equals].max(initial=0.0)
        raise ValueError(
            f"No threshold reaches a precision of {precision} on {len(votes)} validation images. The highest "
            f"precision is {best:.3f}. Use a lower precision or a better model."
        )
    place = places[-1]
    fitted = {"threshold": float(similarities[place]), "precision": float(precisions[place])}
    return Threshold.of({**fitted, "labeled": float((place + 1) / len(votes)), "images": len(votes)})


@dataclasses.dataclass(frozen=True)
class Labeled:
    """An image and its label, which its neighbors voted for, or which has the most similar text.

    Args:
        path: String. Path of the image, or a name such as `Image 0` for an image that is not a file.
        label: String, or `None` if the label is unknown.
        similarity: Float. Similarity of the nearest neighbor with the label that received the most votes, or of the
            text. `None` if the image cannot be read.

    Example:

    ```python
    index = tfdml.Index(lambda vectors: np.array(vectors))
    index.add([[1.0, 0.0], [0.0, 1.0]], labels=["cup", "bowl"])
    found = index.label([[0.8, 0.6]])[0]
    found.path, found.label, round(found.similarity, 2)  # ("Image 0", "cup", 0.8)
    ```
    """

    path: str
    label: str | None
    similarity: float | None

    def in_json(self) -> dict[str, Any]:
        """Returns a dictionary for JSON, with `None` instead of -inf, which JSON does not have."""
        return dataclasses.asdict(self) | {"similarity": None if self.similarity == -np.inf else self.similarity}


def label_images(searcher, images, k, threshold):
    """Returns a list of `Labeled` objects for images, by a vote of their k nearest neighbors in a `Searcher`'s index.

    The images are in the forms that `Searcher.search` accepts. The index must have labels.
    """
    found = []
    for place, (image, each) in enumerate(zip(images, _neighbors(searcher, images, k), strict=True)):
        label, similarity = (None, None) if each is None else vote(each, searcher.manifest["metric"])
        near = similarity is not None and threshold.accepts(similarity)
        path = str(image) if isinstance(image, str | Path) else f"Image {place}"
        found.append(Labeled(path, label if near else None, similarity))
    return found


def label_by_texts(searcher, images, classes, threshold):
    """Returns a list of `Labeled` objects for images, by the class with the most similar text.

    The text of a class is its name in the templates of the model's card. Several templates have the mean of their
    embeddings. The images are in the forms that `Searcher.search` accepts.
    """
    classes = list(classes)
    named = classes and all(isinstance(each, str) and each.strip() for each in classes)
    if not named or len({*classes}) < len(classes):
        raise ValueError(f"classes must be different names, none of them empty. Received: classes={classes!r}.")
    folder = searcher.model_folder
    texts = filled(TEMPLATE if folder is None else templates_of(folder), classes)
    vectors = searcher.embed_texts([text for several in texts for text in several])
    vectors = unit_length(vectors.reshape(len(classes), -1, vectors.shape[1]).mean(axis=1))
    embeddings, valid = searcher.embed_readable(images)
    found = []
    for place, (image, scores) in enumerate(zip(images, unit_length(embeddings) @ vectors.T, strict=True)):
        path = str(image) if isinstance(image, str | Path) else f"Image {place}"
        similarity = float(scores.max()) if valid[place] else None
        near = valid[place] and threshold.accepts(similarity)
        found.append(Labeled(path, classes[int(scores.argmax())] if near else None, similarity))
    return found


def calibrated_on(searcher, images, k, precision):
    """Returns the `Threshold` that `calibrate` finds for an `ImageList` of labeled validation images.

    Unreadable images are skipped. The threshold also reports how many of the others are already in the index, as
    `indexed`.
    """
    if None in images.labels:
        raise ValueError(
            f"{images.paths[images.labels.index(None)]} has no label. Put it into a folder that is named after "
            "its label."
        )
    votes, labels, indexed, metric = [], [], 0, searcher.manifest["metric"]
    # Search for more than k neighbors, because the image itself is removed from them.
    found = _neighbors(searcher, images.paths, 2 * k)
    for path, label, neighbors in zip(images.paths, images.labels, found, strict=True):
        if neighbors is not None:
            others = [each for each in neighbors if not _is_same(path, each, metric)]
            indexed += len(others) < len(neighbors)
            votes.append(vote(others[:k], metric))
            labels.append(label)
    return Threshold.of({**calibrate(votes, labels, precision).fitted, "indexed": indexed})


def _is_same(path, neighbor, metric):
    """Returns whether a neighbor is the image itself, by its embedding or, if similarities are approximate, content."""
    if _distance(neighbor.similarity, metric) <= LEAST_DISTANCE:
        return True
    try:
        return filecmp.cmp(path, neighbor.file, shallow=False)
    except OSError:
        # The images of an index may no longer exist.
        return False


def _neighbors(searcher, images, k):
    """Returns the neighbors of each image, or None for images that cannot be read."""
    if not searcher.has_labels():
        raise ValueError(f"The images in the index {searcher.name} have no labels. Use an index with labels.")
    embeddings, valid = searcher.embed_readable(images)
    neighbors = searcher.search_vectors(embeddings, k)
    return [each if readable else None for each, readable in zip(neighbors, valid, strict=True)]


# Number of neighbors in the first search. If all of them are duplicates, the search is repeated with more.
NEIGHBORS = 8


@dataclasses.dataclass(frozen=True)
class DuplicateGroup:
    """Images that near-duplicate pairs connect.

    Each image's similarity is its similarity to the nearest image of the group.

    Args:
        representative: The `Neighbor` with the most duplicates. If there are several, the one with the highest
            similarity.
        others: List of the other `Neighbor` objects.

    Example:

    ```python
    index = tfdml.Index()
    index.add(vectors=[[1.0, 0.0], [1.0, 0.001], [0.0, 1.0]], paths=["a", "copy of a", "b"])
    group = index.duplicate_groups(threshold=0.99)[0]
    group.representative.path, [each.path for each in group.others]  # ("a", ["copy of a"])
    ```
    """

    representative: Neighbor
    others: list[Neighbor]


def duplicates(searcher, threshold):
    """Returns pairs of images with at least this similarity, `[(Neighbor, Neighbor)]`, the most similar pair first.

    Each image is searched in the index, so an approximate index can miss some pairs. Both images of a pair have the
    pair's similarity. The index must be a folder.
    """
    pairs = _pairs(searcher.store, threshold)
    return [tuple(searcher.store.image(row, similarity) for row in pair) for pair, similarity in pairs]


def duplicate_groups(searcher, threshold):
    """Returns the `DuplicateGroup` objects of images that pairs of `duplicates` connect, the largest group first."""
    pairs = _pairs(searcher.store, threshold)
    parents, partners, nearest = {}, Counter(), {}
    for pair, similarity in pairs:
        first, second = (_root(parents, row) for row in pair)
        parents[max(first, second)] = min(first, second)
        partners.update(pair)
        for row in pair:
            # Pairs are sorted by similarity, so the first one has the highest.
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
    """Returns the row that represents a row's group."""
    while parents.setdefault(row, row) != row:
        parents[row] = parents[parents[row]]
        row = parents[row]
    return row


def _pairs(store, threshold):
    """Returns pairs of rows and their similarities, `[((row, row), similarity)]`, the most similar pair first."""
    if not isinstance(store, FolderStore):
        raise ValueError(f"Duplicates can only be found in an index that is a folder. Received: {store}.")
    if store.manifest["metric"] == "euclidean" and threshold > 0:
        raise ValueError(
            "threshold must be at most 0, because the similarity is minus a distance. Received: "
            f"threshold={threshold:g}."
        )
    # Tiles of one photo are often equal, such as parts of the sky.
    tiles = store.manifest.get("tiles")
    live = np.flatnonzero(~store.rows.deleted)
    found, first = {}, 0
    for embeddings in _embeddings(store, store.rows.ids[live]):
        rows, k = np.arange(len(embeddings)), NEIGHBORS
        while len(rows):
            similarities, others = store.nearest(embeddings[rows], k)
            enough = similarities >= threshold
            for place, column in zip(*np.nonzero(enough & (others >= 0)), strict=True):
                pair = sorted((int(live[first + rows[place]]), int(others[place, column])))
                if pair[0] != pair[1] and (not tiles or len({parted(store.rows.paths[row])[0] for row in pair}) == 2):
                    found[tuple(pair)] = float(similarities[place, column])
            rows, k = rows[enough[:, -1] & (k < len(live))], 4 * k
        first += len(embeddings)
    return sorted(found.items(), key=lambda item: (-item[1], item[0]))


def _embeddings(store, ids):
    """Yields the embeddings of the images in the index in order, in blocks `[N, D]`."""
    shards, first = EmbeddingShards(store.embeddings), 0
    for block in shards.blocks():
        # The shards also contain embeddings of deleted images and of an interrupted --add.
        kept = np.isin(block.ids, ids)
        expected = ids[first : first + np.count_nonzero(kept)]
        if not np.array_equal(block.ids[kept], expected):
            break
        yield block.embeddings[kept]
        first += len(expected)
    if first != len(ids):
        raise ValueError(
            f"{shards.folder} does not contain the embeddings of all images in the index. Create the index again."
        )
