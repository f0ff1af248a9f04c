"""Hard neighbors: batches of random positive pairs and their difficult negatives."""

import dataclasses

import numpy as np
import tensorflow as tf

from pipelines.sampling.cluster_neighbors import ClusterNeighbors
from pipelines.sampling.partners import draw_with_partners, most_drawn, partner_tables
from pipelines.sampling.rows_by_class import group_by_class
from pipelines.sampling.sampler import Sampler, check_embeddings
from pipelines.sampling.streams import Stream, stream_key
from tfdml.neighbors.nearest import NO_NEIGHBOR, nearest_negatives
from tfdml.registry import register
from tfdml.registry.arguments import Count


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
