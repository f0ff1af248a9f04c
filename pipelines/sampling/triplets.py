"""Triplets: batches of random anchors, each with a positive and a negative."""

import dataclasses

import tensorflow as tf

from pipelines.sampling.partners import draw_with_partners, most_drawn, partner_tables
from pipelines.sampling.sampler import Sampler
from pipelines.sampling.streams import Stream, stream_key
from tfdml.registry import register
from tfdml.registry.arguments import Count


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
