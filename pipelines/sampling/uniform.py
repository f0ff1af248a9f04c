"""Uniform: batches of random rows."""

import numpy as np
import tensorflow as tf

from pipelines.sampling.cluster_groups import ClusterGroups
from pipelines.sampling.draws import draw
from pipelines.sampling.sampler import Sampler
from pipelines.sampling.streams import as_long_as, stream_keys
from tfdml.registry import register
from tfdml.registry.arguments import Count


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
        """Returns row numbers `[n, batch_size]` of the batches of `steps` `[n]`."""
        count = tf.constant(self.batch_size, tf.int64)
        return draw(stream_keys(seed, steps), steps, *as_long_as(steps, total, count), self.batch_size)

    def cluster_draws(self):
        return ClusterGroups(None, self.batch_size)
