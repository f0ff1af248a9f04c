"""Pairs: batches of random images, each with a partner of its class or of another."""

import logging
from typing import Annotated

import numpy as np
import tensorflow as tf

from pipelines.sampling.partners import draw_with_partners, most_drawn, partner_tables
from pipelines.sampling.rows_by_class import group_by_class
from pipelines.sampling.sampler import Sampler
from tfdml.registry import register
from tfdml.registry.arguments import integer


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
