"""Hard negatives of the whole training set, without those that are probably images of the same thing."""

import os
from typing import Annotated

import numpy as np

from pipelines.sampling.draws import group_by_class
from pipelines.sampling.others import HardNeighbors
from pipelines.sampling.sampler import check_embeddings
from tfdml.files.shards import EmbeddingShards
from tfdml.neighbors.nearest import NO_NEIGHBOR, nearest_negatives, unit_length
from tfdml.registry import register
from tfdml.registry.arguments import FilePath, integer, interval, number

# Bytes for the vectors of candidates that are compared at once.
MEMORY = 2**27
# Two cosines differ by at most 2.
Gap = Annotated[float, number(at_least=-2, at_most=2)]


@register("sampler", "corpus_negatives")
class CorpusNegatives(HardNeighbors):
    """Sampler of random positive pairs with hard negatives of the whole training set, without probable false ones.

    A false negative shows the same thing as the image, but has another label: a duplicate, a wrong label, or a class
    that exists twice. The nearest images of other classes contain most of them. This sampler draws batches like
    `hard_neighbors`, from candidates that pass all filters:

    - Their rank is in `ranks`. Rank 0 is the nearest image of another class.
    - With a `margin`, they are less similar to the image than its nearest positive, by at least this much.
    - With a `teacher`, the embeddings of another model, they are less similar than the nearest positive there as well.

    Similarities are cosines. A random image of another class replaces the negative of an image without candidates. The
    filter by `margin` is described in NV-Retriever (Moreira et al., 2024).

    Args:
        pairs: Integer. Number of positive pairs per batch. Defaults to `32`.
        neighbors: Integer. Maximum number of hard negatives to keep for each image, the nearest that pass. One of them
            is drawn. Defaults to `10`.
        refresh_every: Integer. Number of epochs between searches. Defaults to `1`.
        ranks: Pair of integers. Range of ranks of the candidates; the last one is not included. Defaults to
            `(10, 100)`.
        margin: Float or `None`. Minimum amount by which the nearest positive must be more similar. Larger values remove
            more false negatives, and more hard ones. If `None`, all are kept. Defaults to `None`.
        teacher: Folder with embeddings of all training images, as written by `python -m tfdml.embed` with another
            model, or `None`. Defaults to `None`.
        teacher_margin: Float. The `margin` for the similarities of the teacher. Defaults to `0.0`.

    Example:

    ```python
    from pipelines.sampling import CorpusNegatives

    # The third image has another label than the first two, but is the same.
    sampler = CorpusNegatives(pairs=1, neighbors=1, ranks=(0, 100), margin=0.05)
    sampler.bind(np.array([0, 0, 1, 1]))
    sampler.refresh(np.array([[1, 0], [0.9, 0.4], [1, 0], [0, 1]], "float32"))
    sampler.refreshed()[0].numpy()[:2].ravel().tolist()  # [3, 3]
    ```
    """

    ranks: Annotated[tuple[int, int], interval(integer(0))] = (10, 100)
    margin: Gap | None = None
    teacher: FilePath | None = None
    teacher_margin: Gap = 0.0

    _spec_name = "corpus_negatives"
    _taught = None

    @property
    def not_within_clusters(self):
        return "its negatives are from the whole training set"

    def tables_of(self, labels):
        most = len(labels) - int(np.min(group_by_class(labels)[2], initial=len(labels)))
        if self.ranks[0] >= min(self.ranks[1], most):
            raise ValueError(
                f"corpus_negatives(ranks={self.ranks}) has no candidates. An image has at most {most:,} images of "
                "other classes. Set ranks such as (0, 100)."
            )
        return super().tables_of(labels)

    def bind_split(self, split):
        self._taught = None if self.teacher is None else teacher_vectors(self.teacher, split)
        super().bind_split(split)

    def refresh(self, embeddings, workers=None):
        check_embeddings(embeddings, self._labels)
        if self.teacher is not None and self._taught is None:
            raise ValueError("corpus_negatives(teacher=...) needs a split with the paths of images. Call bind_split.")
        models = [] if self.margin is None else [(embeddings, self.margin)]
        models += [] if self._taught is None else [(self._taught, self.teacher_margin)]
        found = nearest_negatives(unit_length(embeddings), self._labels, self.ranks[1], workers=workers)
        candidates = without_false(found[:, self.ranks[0] :], self._labels, models)
        self._tables[-1].assign(repeated(candidates, self.neighbors))


class TeacherError(ValueError):
    """Error of a teacher's folder, which other training classes do not repair."""


def teacher_vectors(folder, split):
    """Returns the vectors `[N, d]` of a split's images from a folder of `python -m tfdml.embed`."""
    if split.encoded or len({*split.images}) < len(split):
        raise TeacherError(
            f"corpus_negatives(teacher={str(folder)!r}) needs a dataset of image files with different paths."
        )
    try:
        shards = EmbeddingShards(os.path.expanduser(folder))
    except ValueError as error:
        raise TeacherError(str(error)) from None
    rows = {os.path.abspath(path): row for row, path in enumerate(split.images)}
    found, missing = np.zeros((len(split), shards.dimension), np.float32), set(rows)
    for block in shards.blocks():
        for path, vector in zip(block.paths, block.embeddings, strict=True):
            if path in rows:
                found[rows[path]] = vector
                missing.discard(path)
    if missing:
        raise TeacherError(
            f"The teacher's folder {folder} has no embedding of {len(missing):,} of {len(split):,} training images, "
            f"for example {min(missing)}. Embed all of them with python -m tfdml.embed."
        )
    return found


def without_false(candidates, labels, models):
    """Returns candidate rows `[N, K]` with `NO_NEIGHBOR` in the place of those that one of the models filters out.

    A model is a pair of embeddings `[N, d]` and a margin. It keeps a candidate if its cosine with the row is at most
    the cosine of the row's nearest positive minus the margin. A row without a positive keeps all.
    """
    kept = candidates != NO_NEIGHBOR
    for embeddings, margin in models:
        vectors = unit_length(np.asarray(embeddings, np.float32))
        limits = nearest_positives(vectors, labels) - margin
        block = max(1, MEMORY // (4 * vectors.shape[1] * max(1, candidates.shape[1])))
        for start in range(0, len(candidates), block):
            rows = slice(start, start + block)
            # A missing candidate is the last row here, which does not matter, because it is not kept anyway.
            similarities = np.einsum("nd,nkd->nk", vectors[rows], vectors[candidates[rows]])
            kept[rows] &= similarities <= limits[rows, None]
    return np.where(kept, candidates, NO_NEIGHBOR)


def nearest_positives(vectors, labels):
    """Returns the largest cosine `[N]` of each L2-normalized vector with others of its class, or infinity without any.

    `labels` `[N]` are the classes.
    """
    found = np.full(len(vectors), np.inf, np.float32)
    rows, starts, sizes = group_by_class(labels)
    for start, size in zip(starts.tolist(), sizes.tolist(), strict=True):
        members = rows[start : start + size]
        if size > 1:
            cosines = vectors[members] @ vectors[members].T
            np.fill_diagonal(cosines, -np.inf)
            found[members] = cosines.max(axis=1)
    return found


def repeated(candidates, count):
    """Returns the first `count` present candidates of each row, repeated to fill all places, as int32 `[N, count]`.

    So each of them is drawn about equally often. A row without candidates has `NO_NEIGHBOR` in all places.
    """
    present = candidates != NO_NEIGHBOR
    order = np.argsort(~present, axis=1, kind="stable")
    numbers = np.minimum(present.sum(axis=1), count)
    places = np.arange(count) % np.maximum(numbers, 1)[:, None]
    return np.take_along_axis(np.take_along_axis(candidates, order, axis=1), places, axis=1).astype(np.int32)
