"""Samples of images with their embeddings, which are compared with the images in an index."""

import dataclasses
import os

import numpy as np

from pipelines.dataset import Split
from pipelines.images.decoding import image_of
from pipelines.reading.unreadable import READING_ERRORS
from tfdml.files.shards import MANIFEST, EmbeddingShards
from tfdml.neighbors.nearest import compared_vectors
from tfdml.neighbors.suggestions import MOST, suggested
from tfdml.serving.embedding import embed_rows
from tfdml.serving.image_list import ImageList
from tfdml.serving.index.stores.folder_store import FolderStore


@dataclasses.dataclass(frozen=True)
class Sample:
    """Paths and embeddings `[N, D]` of images, and a dictionary `bad` from unreadable paths to the reasons."""

    paths: list
    vectors: np.ndarray
    bad: dict

    def compared(self, metric):
        """Returns the embeddings as a metric compares them: at unit length for `cosine`."""
        return compared_vectors(self.vectors, metric)


def sample_of(searcher, source, *, most, seed=0):
    """Returns a `Sample` of at most `most` images of a source: images, or a folder of `python -m tfdml.embed`."""
    if os.path.isfile(os.path.join(source, MANIFEST)):
        shards = EmbeddingShards(source)
        if shards.model != searcher.manifest["model"]:
            raise ValueError(
                f"The embeddings in {source} were not computed by the model of the index {searcher.name}. Embed the "
                "images with this model."
            )
        return _of_shards(shards, most, seed)
    images = ImageList.of(source)
    rows = _drawn(len(images), most, seed).tolist()
    kept, vectors, bad = embed_rows(images, rows, searcher.model)
    return Sample([images.paths[row] for row in kept], vectors, bad)


def index_sample(searcher, *, most, seed=0):
    """Returns a `Sample` of the images in an index, with the embeddings that it stores."""
    shards, store = _stored(searcher)
    sample = _of_shards(shards, most, seed, store.rows.deleted_ids)
    return dataclasses.replace(sample, paths=[store.folder.file_of(path) for path in sample.paths])


def _stored(searcher):
    """Returns the `EmbeddingShards` and the store of an index in a folder."""
    store = searcher.store
    if not isinstance(store, FolderStore) or not store.embeddings.exists():
        raise ValueError(
            f"The embeddings in the index {searcher.name} cannot be read. Expected an index in a folder. Use one, or "
            "set --reference if the command has this flag."
        )
    return EmbeddingShards(store.embeddings), store


def _of_shards(shards, most, seed, deleted=frozenset()):
    ids, paths = [], []
    for block in shards.blocks():
        ids += block.ids.tolist()
        paths += block.paths
    rows = np.array([row for row, id in enumerate(ids) if id not in deleted], np.int64)
    rows = rows[_drawn(len(rows), most, seed)]
    return Sample([paths[row] for row in rows], shards.rows(rows), {})


def _drawn(count, most, seed):
    """Returns at most `most` of `count` row numbers, at random, sorted."""
    return np.sort(np.random.default_rng(seed).permutation(count)[:most])


def nearest_similarities(searcher, sample):
    """Returns the similarity of each image of a `Sample` to the nearest image in the index, except for itself `[N]`."""
    found = []
    for path, neighbors in zip(sample.paths, searcher.search_vectors(sample.vectors, 2), strict=True):
        others = [each.similarity for each in neighbors if each.path != path]
        if not others:
            raise ValueError(f"The index {searcher.name} has no image to compare {path} with. Add more images first.")
        found.append(others[0])
    return np.array(found)


MOST_PROPOSED = MOST
# Number of labeled images that are shown next to a proposed one.
NEAR = 4


def proposals(searcher, count, **options):
    """Returns what `write_labeling_page` shows for an index: paths, labels, and the images to label next.

    For the `options`, see `suggested`.
    """
    shards, store = _stored(searcher)
    if tiles := store.manifest.get("tiles"):
        raise ValueError(
            f"The index {searcher.name} has tiles ({tiles}), and a label describes a whole image. Use an index without "
            "tiles."
        )
    deleted, paths, labels, vectors = store.rows.deleted_ids, [], [], []
    for block in shards.blocks():
        kept = [place for place, id in enumerate(block.ids.tolist()) if id not in deleted]
        paths += [os.path.abspath(store.folder.file_of(block.paths[place])) for place in kept]
        labels += [block.labels[place] for place in kept]
        vectors.append(block.embeddings[kept])
    if None not in labels:
        raise ValueError(
            f"All {len(labels):,} images in the index {searcher.name} have a label. Add images without labels, for "
            "example a folder without subfolders."
        )
    vectors = np.concatenate(vectors)
    found = suggested(vectors, labels, count, **options)
    known = np.array([row for row, label in enumerate(labels) if label is not None], np.int64)
    cosines = compared_vectors(vectors[found.rows], "cosine") @ compared_vectors(vectors[known], "cosine").T
    near = known[np.argsort(-cosines, axis=1)[:, :NEAR]].tolist()
    asked = [
        (int(row), labels[nearest], f"margin to the next label: {margin:.2f}", shown)
        if nearest >= 0
        else (int(row), None, "", shown)
        for row, nearest, margin, shown in zip(*found, near, strict=True)
    ]
    return paths, labels, asked


def pixels_of(path):
    """Returns the pixels of an image file, or of a part of it, see `with_box`. If it cannot be read, returns `None`."""
    contents = np.empty(1, object)
    try:
        contents[0] = ImageList([path], [None]).read(0)
        return image_of(Split(contents, np.zeros(1, np.int64)), 0).numpy()
    except (OSError, *READING_ERRORS):
        return None
