"""Batches of pairs, triplets and views."""

import dataclasses
import logging
from typing import Annotated

import numpy as np
import tensorflow as tf

from pipelines.sampling.draws import Stream, as_long_as, draw, group_by_class, stream_key, stream_keys
from pipelines.sampling.sampler import Sampler
from tfdml.registry import register
from tfdml.registry.arguments import Count, integer


@dataclasses.dataclass(frozen=True)
class Drawn:
    """Drawn rows `[n, count]`, as places among the rows sorted by class."""

    place: tf.Tensor
    # First place and number of rows of its class.
    start: tf.Tensor
    size: tf.Tensor
    # A random number for each, uint64.
    random: tf.Tensor
    # Number of all rows.
    total: tf.Tensor

    def positives(self):
        """Returns the place of a random row of the same class for each, other than itself."""
        return self.start + (self.place - self.start + 1 + self._below(self.size - 1)) % self.size

    def negatives(self):
        """Returns the place of a random row of another class for each."""
        place = self._below(self.total - self.size)
        return place + tf.where(place < self.start, tf.zeros_like(self.size), self.size)

    def _below(self, limit):
        return tf.cast(self.random % tf.cast(limit, tf.uint64), tf.int64)


def partner_tables(labels, count, sampler):
    """Returns rows sorted by class, the places that are drawn, and start and size of the class at each place.

    Raises a ValueError, which names the `sampler`, if there are fewer than the `count` rows of a batch.
    """
    by_class, starts, sizes = group_by_class(labels)
    place, size = np.arange(len(by_class)), np.repeat(sizes, sizes)
    start, drawn = np.repeat(starts, sizes), place[size > 1]
    if len(drawn) < count or len(sizes) < 2:
        raise ValueError(
            f"{sampler} needs that many training rows in classes of two or more, and two "
            f"classes; there are {len(drawn)} rows and {len(sizes)} classes. Lower it."
        )
    return [by_class, drawn, start, size]


def most_drawn(labels, parts):
    """Returns how many rows a batch can draw that has `parts` rows for each of them, at least 1."""
    sizes = group_by_class(labels)[2]
    return max(1, min(int(np.sum(sizes[sizes > 1])), len(labels) // parts))


def draw_with_partners(seed, steps, tables, count):
    """Draws `count` rows of classes of two or more for each of the steps; all come once before any comes twice.

    `tables` are those of `partner_tables`.
    """
    _, drawn, start, size = tables
    total, wanted = tf.size(drawn, out_type=tf.int64), tf.constant(count, tf.int64)
    place = tf.gather(drawn, draw(stream_keys(seed, steps), steps, *as_long_as(steps, total, wanted), count))
    number = tf.range(count, dtype=tf.int64)[None, :]
    # A draw from so few rows is in the order of classes, and its first half would always be of the first classes.
    shuffled = tf.bitcast(stream_key(seed, Stream.ORDER, steps[:, None], place), tf.int64)
    order = tf.argsort(tf.where(2 * wanted > total, shuffled, number), axis=1)
    place = tf.gather(place, order, batch_dims=1)
    random = stream_key(seed, Stream.PARTNERS, steps[:, None], number)
    return Drawn(place, tf.gather(start, place), tf.gather(size, place), random, tf.size(size, out_type=tf.int64))


@register("sampler", "pairs")
class Pairs(Sampler):
    """Batches of `images` random rows and their partners: of their class for the first half, of others for the rest.

    These are the mini-batches of Attention-based Ensemble (Sec. 4). Rows of classes with two or more rows come once
    before any comes twice; partners are drawn with replacement, negative ones from all rows of other classes.

    Args:
        images: number of rows with a partner, even.
    """

    images: Annotated[int, integer(2)] = 32

    parts = 2

    def check_arguments(self):
        if self.images % 2:
            raise ValueError(f"The sampler 'pairs' expects images to be even; received {self.images}.")

    @property
    def batch_size(self) -> int:
        return 2 * self.images

    def bind(self, labels):
        super().bind(labels)
        alone = int(np.sum(group_by_class(labels)[2] == 1))
        if alone:
            logging.getLogger(__name__).info(
                "%d rows are alone in their class and are only used as negative partners.", alone
            )

    def tables_of(self, labels):
        return partner_tables(labels, self.images, f"pairs(images={self.images})")

    def fitted_to(self, labels):
        # Half of the images have a partner of their class.
        return {"images": max(2, min(self.images, most_drawn(labels, 2) // 2 * 2))}

    def draw_rows(self, seed, steps, *tables):
        drawn = draw_with_partners(seed, steps, tables, self.images)
        number = tf.range(self.images, dtype=tf.int64)[None, :]
        partner = tf.where(number < self.images // 2, drawn.positives(), drawn.negatives())
        return tf.gather(tables[0], tf.concat([drawn.place, partner], axis=1))


@register("sampler", "triplets")
class Triplets(Sampler):
    """Batches of `triplets` random anchors, then a random positive for each, then a random negative for each.

    The batches of the triplet loss in Lifted Structure (Sec. 3): `--loss="triplet(mining='given')"`. Rows of classes
    with two or more rows come once as anchors before any comes twice.

    Args:
        triplets: number of anchors; a batch has three times as many rows.
    """

    triplets: Count = 40

    parts = 3

    @property
    def batch_size(self) -> int:
        return 3 * self.triplets

    def tables_of(self, labels):
        return partner_tables(labels, self.triplets, f"triplets(triplets={self.triplets})")

    def fitted_to(self, labels):
        return {"triplets": min(self.triplets, most_drawn(labels, 3))}

    def draw_rows(self, seed, steps, *tables):
        drawn = draw_with_partners(seed, steps, tables, self.triplets)
        number = tf.range(self.triplets, 2 * self.triplets, dtype=tf.int64)[None, :]
        others = dataclasses.replace(drawn, random=stream_key(seed, Stream.PARTNERS, steps[:, None], number))
        return tf.gather(tables[0], tf.concat([drawn.place, drawn.positives(), others.negatives()], axis=1))


@register("sampler", "views")
class Views(Sampler):
    """Batches of `images` different images, and the same ones again, which the transform makes other views of them.

    Row i of the first half and row i of the second are views of an image. Each image comes once before any comes twice.
    Of images without classes, as of the dataset `photos`, only its views are alike; classes are known to losses where
    there are any.

    Args:
        images: images in a batch, which has twice as many rows.
    """

    images: Annotated[int, integer(2)] = 64

    several_views = True

    @property
    def batch_size(self) -> int:
        return 2 * self.images

    def tables_of(self, labels):
        """Returns the number of rows, a scalar."""
        if len(labels) < self.images:
            raise ValueError(f"views(images={self.images}) needs that many training rows, there are {len(labels)}.")
        return [np.int64(len(labels))]

    def fitted_to(self, labels):
        return {"images": min(self.images, len(labels))}

    def draw_rows(self, seed, steps, total):
        count = tf.constant(self.images, tf.int64)
        rows = draw(stream_keys(seed, steps), steps, *as_long_as(steps, total, count), self.images)
        return tf.concat([rows, rows], axis=1)
