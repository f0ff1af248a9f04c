"""Given: batches of the pairs or triplets that a dataset knows."""

import logging

import numpy as np
import tensorflow as tf

from pipelines.datasets.split import NONE
from pipelines.sampling.draws import draw
from pipelines.sampling.sampler import Sampler
from pipelines.sampling.streams import as_long_as, stream_keys
from tfdml.registry import register
from tfdml.registry.arguments import Count

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

    gives_relevance = True
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
