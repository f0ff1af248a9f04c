"""Uniform batches, hard negatives, explicit pairs, and replaced labels."""

import dataclasses
import logging
from collections.abc import Sequence
from typing import Annotated

import numpy as np

from pipelines.dataset import NONE
from pipelines.operations import tf
from pipelines.sampling.clusters import ClusterGroups, ClusterNeighbors
from pipelines.sampling.draws import Stream, as_long_as, draw, each_alone, group_by_class, stream_key, stream_keys
from pipelines.sampling.pairs import draw_with_partners, most_drawn, partner_tables
from pipelines.sampling.sampler import Sampler, check_embeddings
from tfdml.neighbors.nearest import NO_NEIGHBOR, nearest_negatives
from tfdml.registry import register
from tfdml.registry.arguments import Count, Labels, Tensor, number
from tfdml.registry.fields import Value


@register("sampler", "uniform")
class Uniform(Sampler):
    """Sampler of `batch_size` different images per batch, regardless of their classes.

    Use it with losses that need no positive pairs, such as proxy-based losses. Each image is drawn once before any
    image is drawn twice.

    Args:
        batch_size: Integer. Number of images per batch. Defaults to `128`.

    Example:

    ```python
    from pipelines.sampling import Uniform

    sampler = Uniform(batch_size=4)
    sampler.bind(np.array([0, 0, 1, 1, 2, 2, 3, 3]))
    sorted(sampler.rows(seed=0, steps=[0, 1]).numpy().ravel().tolist())  # [0, 1, 2, 3, 4, 5, 6, 7]
    ```
    """

    batch_size: Count = 128

    def tables_of(self, labels):
        """Returns the number of rows, a scalar."""
        if len(labels) < self.batch_size:
            raise ValueError(
                f"uniform(batch_size={self.batch_size}) needs that many training images. Received: {len(labels)} "
                "images. Lower batch_size."
            )
        return [np.int64(len(labels))]

    def fitted_to(self, labels):
        return {"batch_size": min(self.batch_size, len(labels))}

    def draw_rows(self, seed, steps, total):
        count = tf.constant(self.batch_size, tf.int64)
        return draw(stream_keys(seed, steps), steps, *as_long_as(steps, total, count), self.batch_size)

    def cluster_draws(self):
        return ClusterGroups(None, self.batch_size)


@register("sampler", "hard_neighbors")
class HardNeighbors(Sampler):
    """Sampler of random positive pairs with hard negatives, which are near images of other classes.

    These are the mini-batches of Lifted Structure (Song et al., 2016), which "sample a few positive pairs at random,
    and then actively add their difficult neighbors". A batch has `4 * pairs` images: first images, then their
    positives, then one hard negative for each of these.

    `refresh` searches the nearest images of other classes in the current embedding. Before its first call, negatives
    are random. Within clusters, negatives are from the same cluster. Each image with a positive starts a pair once
    before any image does so twice. Positives and negatives are drawn with replacement.

    Args:
        pairs: Integer. Number of positive pairs per batch. Defaults to `32`.
        neighbors: Integer. Number of hard negatives to keep for each image, from which one is drawn. With larger
            values, negatives are less hard. Defaults to `10`.
        refresh_every: Integer. Number of epochs between searches for hard negatives. Defaults to `1`.

    Example:

    ```python
    from pipelines.sampling import HardNeighbors

    sampler = HardNeighbors(pairs=1, neighbors=1)
    sampler.bind(np.array([0, 0, 1, 1, 2, 2]))
    sampler.refresh(np.array([[0, 0], [0, 1], [0, 2], [0, 3], [0, 8], [0, 9]], "float32"))
    sampler.refreshed()[0].numpy().ravel().tolist()  # [2, 2, 1, 1, 3, 3]
    ```

    The result has the nearest image of another class for each image.
    """

    pairs: Count = 32
    neighbors: Count = 10
    refresh_every: Count = 1

    not_within_clusters = None
    _spec_name = "hard_neighbors"

    @property
    def batch_size(self) -> int:
        return 4 * self.pairs

    def bind(self, labels):
        self._labels = np.asarray(labels)
        super().bind(labels)

    def tables_of(self, labels):
        """Returns the tables of partners and an empty table of the neighbors `[N, neighbors]` of each row."""
        tables = partner_tables(labels, self.pairs, f"{self._spec_name}(pairs={self.pairs})")
        return [*tables, np.full((len(labels), self.neighbors), NO_NEIGHBOR, np.int32)]

    def fitted_to(self, labels):
        """Returns at most as many pairs as fill a batch, and at most as many neighbors as other classes have rows."""
        others = len(labels) - int(np.max(group_by_class(labels)[2]))
        return {"pairs": min(self.pairs, most_drawn(labels, 4)), "neighbors": max(1, min(self.neighbors, others))}

    def refresh(self, embeddings, workers=None):
        """Searches the hard negatives of all rows. The next pass over the dataset draws from them.

        Args:
            embeddings: `[N, d]` array.
            workers: `Workers` that search together, or `None`. If `None`, this process searches alone. Defaults to
                `None`.
        """
        check_embeddings(embeddings, self._labels)
        self._tables[-1].assign(nearest_negatives(embeddings, self._labels, self.neighbors, workers=workers))

    def refreshed(self):
        return self._tables[-1:]

    def cluster_draws(self):
        return ClusterNeighbors(self)

    def draw_rows(self, seed, steps, *tables):
        """Returns row numbers `[n, batch_size]` of the batches of `steps` `[n]`: images, positives, hard negatives."""
        *of_partners, neighbors = tables
        drawn = draw_with_partners(seed, steps, of_partners, self.pairs)
        number = tf.range(2 * self.pairs, dtype=tf.int64)[None, :]
        random = stream_key(seed, Stream.NEIGHBORS, steps[:, None], number)
        place = tf.concat([drawn.place, drawn.positives()], axis=1)
        start, size = (tf.concat([each, each], axis=1) for each in (drawn.start, drawn.size))
        negatives = dataclasses.replace(drawn, place=place, start=start, size=size, random=random).negatives()
        rows, any_negative = tf.gather(of_partners[0], place), tf.gather(of_partners[0], negatives)
        # This uses other bits than the random negative, so that both are independent.
        which = tf.cast(tf.bitwise.right_shift(random, tf.constant(32, tf.uint64)), tf.int64) % self.neighbors
        neighbor = tf.cast(tf.gather_nd(neighbors, tf.stack([rows, which], axis=2)), tf.int64)
        return tf.concat([rows, tf.where(neighbor == NO_NEIGHBOR, any_negative, neighbor)], axis=1)


# Relevance of unknown pairs.
UNKNOWN = -1.0


@register("sampler", "given")
class Given(Sampler):
    """Sampler of the explicit pairs or triplets in the dataset `pairs`.

    Row i of the first half (or third) of a batch belongs to row i of the other ones. The relevance of all other pairs
    of images is unknown. Each pair or triplet is drawn once before any is drawn twice.

    Args:
        count: Integer. Number of pairs or triplets per batch. Defaults to `32`.

    Example:

    ```python
    from pipelines.datasets import Split
    from pipelines.sampling import Given

    # The first two images are similar, the other two are different.
    images = np.array(["a.jpg", "b.jpg", "c.jpg", "d.jpg"], object)
    split = Split(images, np.arange(4), relations=np.array([[0, 1, -1], [2, -1, 3]]))
    sampler = Given(count=2)
    sampler.bind_split(split)
    sorted(sampler.rows(seed=0, steps=[0]).numpy()[0].tolist())  # [0, 1, 2, 3]
    ```
    """

    count: Count = 32

    targets = "relevance"
    not_within_clusters = "its pairs are those of the dataset"

    @property
    def batch_size(self) -> int:
        return self.parts * self.count

    def bind_split(self, split):
        if split.relations is None:
            raise ValueError(
                "The sampler 'given' needs a dataset with explicit pairs or triplets, such as 'pairs'. This dataset "
                "has none. Use another sampler."
            )
        relations = split.known_relations
        # Pairs have either a similar or a different image. Triplets have both.
        self.parts = 3 if len(relations) and np.all(relations != NONE) else 2
        for place, kind in enumerate(("the same", "different"), 1):
            if np.all(relations[:, place] == NONE):
                logging.getLogger(__name__).warning(
                    "The training data has no pair that is %s. Most losses need pairs of both kinds.", kind
                )
        self.bind(relations)

    def tables_of(self, relations):
        """Returns the rows `[R, parts]` of the relations, and whether the second image is similar to the first."""
        if len(relations) < self.count:
            raise ValueError(
                f"given(count={self.count}) needs that many training pairs. Received: {len(relations)} pairs. Lower "
                "count."
            )
        same = relations[:, 1] != NONE
        rows = relations if self.parts == 3 else np.stack([relations[:, 0], np.max(relations[:, 1:], axis=1)], axis=1)
        return [rows, same]

    def draw_rows(self, seed, steps, rows, same):
        drawn = tf.gather(rows, self._drawn(seed, steps, rows))
        # TensorFlow would print a message if it transposed integers.
        return tf.concat([drawn[:, :, part] for part in range(self.parts)], axis=1)

    def relevance(self, seed, steps, tables):
        """Returns the relevance of pairs `[n, batch_size, batch_size]`: 1 (similar), 0 (different) or -1 (unknown)."""
        rows, same = tables
        value = tf.cast(tf.gather(same, self._drawn(seed, steps, rows)), tf.float32)
        unknown = tf.fill([tf.size(steps), self.count, self.count], UNKNOWN)
        second, none = tf.linalg.set_diag(unknown, value), [unknown] * (self.parts - 2)
        first = tf.concat([unknown, second, *[tf.linalg.set_diag(each, 1 - value) for each in none]], axis=2)
        # The relevance of a pair is symmetric.
        below = [tf.concat([part, unknown, *none], axis=2) for part in tf.split(first, self.parts, axis=2)[1:]]
        return tf.concat([first, *below], axis=1)

    def _drawn(self, seed, steps, rows):
        total, count = tf.shape(rows, tf.int64)[0], tf.constant(self.count, tf.int64)
        return draw(stream_keys(seed, steps), steps, *as_long_as(steps, total, count), self.count)


@register("labels", "exchanged")
class Exchanged(Value):
    """Labels with noise: a fraction of the training images gets another class at random, to test robustness.

    The seed of the run determines the images and their new classes. Labels for validation and test are unchanged.

    Args:
        share: Float between 0 and 1. Fraction of the images with a wrong class. Defaults to `0.2`.

    Example:

    ```python
    from pipelines.sampling import Exchanged

    labels = np.repeat(np.arange(5), 20)
    int(np.sum(Exchanged(share=0.2).first(labels, seed=0) != labels))  # 20
    ```
    """

    share: Annotated[float, number(above=0, below=1)] = 0.2

    def first(self, labels: Labels, seed: int) -> np.ndarray:
        """Returns the labels with a fraction of them replaced by any other class, with equal probability."""
        classes, numbers = np.unique(labels, return_inverse=True)
        if len(classes) < 2 or each_alone(labels):
            raise ValueError(
                "Labels cannot be exchanged. Expected at least two classes with several images. Received: "
                f"{len(numbers)} images of {len(classes)} classes."
            )
        random = np.random.default_rng(seed)
        rows = random.permutation(len(numbers))[: round(self.share * len(numbers))]
        numbers[rows] += random.integers(1, len(classes), len(rows))
        # A class may have lost all its images, so the labels are numbered again without gaps.
        return np.unique(numbers % len(classes), return_inverse=True)[1]


class PseudoClasses(Sampler):
    """Draws the batches of another sampler with labels that `assign` replaces, such as clusters.

    The batches contain the replaced labels.

    Args:
        sampler: `Sampler` that composes the batches. It must draw by classes, such as `PxK` or `Uniform`.

    Raises:
        ValueError: If the sampler does not draw by classes, or if its tables follow the embedding.

    Example:

    ```python
    from pipelines.sampling import PseudoClasses, PxK

    sampler = PseudoClasses(PxK(classes=2, per_class=2))
    sampler.bind(np.array([0, 0, 1, 1]))
    sampler.assign(np.array([0, 1, 0, 1]))
    rows = sampler.rows(seed=0, steps=[0])
    np.sort(sampler.labels_of(rows, sampler.tables()).numpy())  # [[0, 0, 1, 1]]
    ```
    """

    targets = "labels"
    not_within_clusters = "its classes are clusters already"

    def __init__(self, sampler: Sampler):
        if sampler.targets != "classes" or sampler.refresh_every:
            raise ValueError(
                f"The sampler {type(sampler).__name__} does not work with labels that change during training. Use a "
                "sampler that draws by classes, such as pxk or uniform."
            )
        self.sampler = sampler
        self.batch_size, self.parts = sampler.batch_size, sampler.parts
        self.several_per_class, self.several_views = sampler.several_per_class, sampler.several_views

    def tables_of(self, labels):
        return [np.asarray(labels, np.int64), *map(np.asarray, self.sampler.tables_of(labels))]

    def assign(self, labels: Labels) -> None:
        """Replaces the labels `[N]`. The next pass over the dataset uses the new labels."""
        for variable, table in zip(self._tables, self.tables_of(labels), strict=True):
            variable.assign(table)

    def draw_rows(self, seed, steps, labels, *tables):
        return self.sampler.draw_rows(seed, steps, *tables)

    def labels_of(self, rows: Tensor, tables: Sequence[Tensor]) -> tf.Tensor:
        """Returns the current labels of rows, with the same shape."""
        return tf.gather(tables[0], rows)
