"""Pairs: batches of random images, each with a partner of its class or of another."""

import numpy as np
import tensorflow as tf
from absl import logging

from pipelines.sampling.class_groups import group_by_class
from pipelines.sampling.draws import draw
from pipelines.sampling.sampler import Sampler
from pipelines.sampling.streams import Stream, as_long_as, stream_key, stream_keys
from tfdml.arguments import integer
from tfdml.registry import register


@register("sampler", "pairs", images=integer(2))
class Pairs(Sampler):
    """Batches of `images` random rows and their partners: of their class for the first half, of others for the rest.

    These are the mini-batches of Attention-based Ensemble (Sec. 4). Rows of classes with two or more rows come once
    before any comes twice; partners are drawn with replacement, negative ones from all rows of other classes.

    Args:
        images: number of rows with a partner, even.
    """

    def __init__(self, images=32):
        if images % 2:
            raise ValueError(f"The sampler 'pairs' expects images to be even; received {images}.")
        self.images = images

    @property
    def batch_size(self):
        return 2 * self.images

    def bind(self, labels):
        super().bind(labels)
        alone = int(np.sum(group_by_class(labels)[2] == 1))
        if alone:
            logging.info("%d rows are alone in their class and are only used as negative partners.", alone)

    def tables_of(self, labels):
        """Returns rows sorted by class, the places that are drawn, and start and size of the class at each place."""
        by_class, starts, sizes = group_by_class(labels)
        place, size = np.arange(len(by_class)), np.repeat(sizes, sizes)
        start, drawn = np.repeat(starts, sizes), place[size > 1]
        if len(drawn) < self.images or len(sizes) < 2:
            raise ValueError(
                f"pairs(images={self.images}) needs that many training rows in classes of two or more, and two "
                f"classes; there are {len(drawn)} rows and {len(sizes)} classes."
            )
        return [by_class, drawn, start, size]

    def draw_rows(self, seed, steps, by_class, drawn, start, size):
        """Returns row numbers `[n, batch_size]` of the batches of `steps` `[n]`: images, then their partners."""
        total, count = tf.size(drawn, out_type=tf.int64), tf.constant(self.images, tf.int64)
        place = tf.gather(drawn, draw(stream_keys(seed, steps), steps, *as_long_as(steps, total, count), self.images))
        number = tf.range(self.images, dtype=tf.int64)[None, :]
        # A draw from so few rows is in the order of classes, and its first half would always get positive partners.
        shuffled = tf.bitcast(stream_key(seed, Stream.ORDER, steps[:, None], place), tf.int64)
        order = tf.argsort(tf.where(2 * count > total, shuffled, number), axis=1)
        place = tf.gather(place, order, batch_dims=1)
        start, size = tf.gather(start, place), tf.gather(size, place)
        random = stream_key(seed, Stream.PARTNERS, steps[:, None], number)

        def below(limit):
            return tf.cast(random % tf.cast(limit, tf.uint64), tf.int64)

        # A row of its class other than itself, or a place among the rows of other classes.
        positive = start + (place - start + 1 + below(size - 1)) % size
        negative = below(tf.size(by_class, out_type=tf.int64) - size)
        negative += tf.where(negative < start, tf.zeros_like(size), size)
        partner = tf.where(number < self.images // 2, positive, negative)
        return tf.gather(by_class, tf.concat([place, partner], axis=1))
