"""Uniform batches, hard neighbors, given pairs, and labels that are replaced."""

import dataclasses
import logging
from collections.abc import Sequence
from typing import Annotated

import numpy as np
import tensorflow as tf

from pipelines.dataset import NONE
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
    """Batches of `batch_size` different rows, each row once before any comes twice.

    Args:
        batch_size: rows in a batch.
    """

    batch_size: Count = 128

    def tables_of(self, labels):
        """Returns the number of rows, a scalar."""
        if len(labels) < self.batch_size:
            raise ValueError(
                f"uniform(batch_size={self.batch_size}) needs that many training rows, there are {len(labels)}."
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
    """Batches of random positive pairs, and for each of their images one of its nearest images of another class.

    These are the mini-batches of lifted structured embedding (Song et al., 2016), which "sample a few positive pairs at
    random, and then actively add their difficult neighbors". A batch has `4 * pairs` rows: images, their partners, and
    a neighbor of each of these.

    Neighbors are those in the current embedding, which `refresh` finds; before its first call negatives are random.
    Within clusters they are of the cluster.

    Rows of classes with two or more rows begin a pair once before any does twice; the rest is drawn with replacement.

    Args:
        pairs: number of positive pairs.
        neighbors: number of nearest images of other classes that are kept for each image, of which one is drawn.
        refresh_every: epochs from one search for neighbors to the next.
    """

    pairs: Count = 32
    neighbors: Count = 10
    refresh_every: Count = 1

    not_within_clusters = None

    @property
    def batch_size(self) -> int:
        return 4 * self.pairs

    def bind(self, labels):
        self._labels = np.asarray(labels)
        super().bind(labels)

    def tables_of(self, labels):
        """Returns the tables of partners and the neighbors `[N, neighbors]` of each row, which are none yet."""
        tables = partner_tables(labels, self.pairs, f"hard_neighbors(pairs={self.pairs})")
        return [*tables, np.full((len(labels), self.neighbors), NO_NEIGHBOR, np.int32)]

    def fitted_to(self, labels):
        """Returns no more pairs than fill a batch, and no more neighbors than other classes have rows."""
        others = len(labels) - int(np.max(group_by_class(labels)[2]))
        return {"pairs": min(self.pairs, most_drawn(labels, 4)), "neighbors": max(1, min(self.neighbors, others))}

    def refresh(self, embeddings, workers=None):
        """Finds the neighbors of all rows by their embeddings; the next pass over the dataset draws them.

        Args:
            embeddings: `[N, d]` array.
            workers: the `Workers` that search together; None: this process alone.
        """
        check_embeddings(embeddings, self._labels)
        self._tables[-1].assign(nearest_negatives(embeddings, self._labels, self.neighbors, workers=workers))

    def refreshed(self):
        return self._tables[-1:]

    def cluster_draws(self):
        return ClusterNeighbors(self)

    def draw_rows(self, seed, steps, *tables):
        """Returns row numbers `[n, batch_size]` of the batches of `steps` `[n]`: images, partners, their neighbors."""
        *of_partners, neighbors = tables
        drawn = draw_with_partners(seed, steps, of_partners, self.pairs)
        number = tf.range(2 * self.pairs, dtype=tf.int64)[None, :]
        random = stream_key(seed, Stream.NEIGHBORS, steps[:, None], number)
        place = tf.concat([drawn.place, drawn.positives()], axis=1)
        start, size = (tf.concat([each, each], axis=1) for each in (drawn.start, drawn.size))
        negatives = dataclasses.replace(drawn, place=place, start=start, size=size, random=random).negatives()
        rows, any_negative = tf.gather(of_partners[0], place), tf.gather(of_partners[0], negatives)
        # Of other bits than the random negative, so that both are independent.
        which = tf.cast(tf.bitwise.right_shift(random, tf.constant(32, tf.uint64)), tf.int64) % self.neighbors
        neighbor = tf.cast(tf.gather_nd(neighbors, tf.stack([rows, which], axis=2)), tf.int64)
        return tf.concat([rows, tf.where(neighbor == NO_NEIGHBOR, any_negative, neighbor)], axis=1)


# Of pairs of which nothing is known.
UNKNOWN = -1.0


@register("sampler", "given")
class Given(Sampler):
    """Batches of the pairs or triplets that the dataset gives; of other pairs of images in a batch nothing is known.

    Row i of the first part and row i of the others belong together. All come once before any comes twice.

    Args:
        count: pairs or triplets in a batch.
    """

    count: Count = 32

    targets = "relevance"
    not_within_clusters = "its pairs are those of the dataset"

    @property
    def batch_size(self) -> int:
        return self.parts * self.count

    def bind_split(self, split):
        if split.relations is None:
            raise ValueError("The sampler 'given' draws pairs of the dataset 'pairs'; this one has classes.")
        relations = split.known_relations
        # Pairs have one of the other two, triplets have both.
        self.parts = 3 if len(relations) and np.all(relations != NONE) else 2
        for place, kind in enumerate(("the same", "different"), 1):
            if np.all(relations[:, place] == NONE):
                logging.getLogger(__name__).warning("No pair for training is %s, which most losses need.", kind)
        self.bind(relations)

    def tables_of(self, relations):
        """Returns the rows `[R, parts]` of the relations, whose labels are rows, and whether the second is the same."""
        if len(relations) < self.count:
            raise ValueError(f"given(count={self.count}) needs that many training pairs, there are {len(relations)}.")
        same = relations[:, 1] != NONE
        rows = relations if self.parts == 3 else np.stack([relations[:, 0], np.max(relations[:, 1:], axis=1)], axis=1)
        return [rows, same]

    def draw_rows(self, seed, steps, rows, same):
        drawn = tf.gather(rows, self._drawn(seed, steps, rows))
        # Not transposed, of which TensorFlow would write a line to the terminal for integers.
        return tf.concat([drawn[:, :, part] for part in range(self.parts)], axis=1)

    def relevance(self, seed, steps, tables):
        """Returns what is known of the pairs of each batch `[n, batch_size, batch_size]`: 1, 0, or -1."""
        rows, same = tables
        value = tf.cast(tf.gather(same, self._drawn(seed, steps, rows)), tf.float32)
        unknown = tf.fill([tf.size(steps), self.count, self.count], UNKNOWN)
        second, none = tf.linalg.set_diag(unknown, value), [unknown] * (self.parts - 2)
        first = tf.concat([unknown, second, *[tf.linalg.set_diag(each, 1 - value) for each in none]], axis=2)
        # A pair is known both ways.
        below = [tf.concat([part, unknown, *none], axis=2) for part in tf.split(first, self.parts, axis=2)[1:]]
        return tf.concat([first, *below], axis=1)

    def _drawn(self, seed, steps, rows):
        total, count = tf.shape(rows, tf.int64)[0], tf.constant(self.count, tf.int64)
        return draw(stream_keys(seed, steps), steps, *as_long_as(steps, total, count), self.count)


@register("labels", "exchanged")
class Exchanged(Value):
    """The classes, those of a share of the training images exchanged for others at random, to see what mistakes cost.

    Which images and for which classes is decided by the seed of the run. Classes of validation and test stay right.

    Args:
        share: share of the images whose class is exchanged.
    """

    share: Annotated[float, number(above=0, below=1)] = 0.2

    def first(self, labels: Labels, seed: int) -> np.ndarray:
        """Returns the labels of training images, those of a share of them of any other class, each as probable."""
        classes, numbers = np.unique(labels, return_inverse=True)
        if len(classes) < 2 or each_alone(labels):
            raise ValueError(
                "Labels cannot be exchanged. Expected images that share several classes, received "
                f"{len(numbers)} images of {len(classes)} classes."
            )
        random = np.random.default_rng(seed)
        rows = random.permutation(len(numbers))[: round(self.share * len(numbers))]
        numbers[rows] += random.integers(1, len(classes), len(rows))
        # A class may have lost all its images; the numbers of the others have no gap.
        return np.unique(numbers % len(classes), return_inverse=True)[1]


class PseudoClasses(Sampler):
    """Draws the batches of a sampler by labels that `assign` replaces; batches have these labels.

    Args:
        sampler: the sampler that composes the batches.
    """

    targets = "labels"
    not_within_clusters = "its classes are clusters already"

    def __init__(self, sampler: Sampler):
        if sampler.targets != "classes" or sampler.refresh_every:
            raise ValueError(f"{type(sampler).__name__} has tables of its own, and draws by no labels that change.")
        self.sampler = sampler
        self.batch_size, self.parts = sampler.batch_size, sampler.parts
        self.several_per_class, self.several_views = sampler.several_per_class, sampler.several_views

    def tables_of(self, labels):
        return [np.asarray(labels, np.int64), *map(np.asarray, self.sampler.tables_of(labels))]

    def assign(self, labels: Labels) -> None:
        """Replaces the labels `[N]`; the next pass over the dataset draws by the new ones."""
        for variable, table in zip(self._tables, self.tables_of(labels), strict=True):
            variable.assign(table)

    def draw_rows(self, seed, steps, labels, *tables):
        return self.sampler.draw_rows(seed, steps, *tables)

    def labels_of(self, rows: Tensor, tables: Sequence[Tensor]) -> tf.Tensor:
        """Returns the current labels of rows, of the same shape."""
        return tf.gather(tables[0], rows)
