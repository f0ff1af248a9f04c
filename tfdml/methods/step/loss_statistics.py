"""Means over an epoch of the statistics of each learner's loss."""

import keras
import tensorflow as tf
from keras import ops

from tfdml.functional.distances import distances
from tfdml.functional.pairs import negative_pairs, positive_pairs
from tfdml.functional.statistics import mean_of
from tfdml.registry.loss_hooks import hooks_of

# A batch that tells which scalars there are.
LABELS = (0, 0, 1, 1)


class LossStatistics:
    """Means over an epoch of scalars of each learner. Not a layer, so that Keras does not save them with the model."""

    def __init__(self):
        self.names = ()
        self.metrics = []

    def make(self, names, learners):
        """Makes room for the named scalars of so many learners."""
        self.names = tuple(names)
        self.metrics = [_Means((learners, len(self.names)), name="loss_statistics")]

    def update(self, found, counts):
        """Adds a batch: a dictionary of scalars for each learner, and whether it counts for the learner."""
        (means,) = self.metrics
        values = [[tf.cast(of_learner[name], means.dtype) for name in self.names] for of_learner in found]
        counts = [tf.cast(each, means.dtype) for each in counts]
        means.update_state(tf.stack([tf.stack(row) for row in values]), tf.stack(counts)[:, None])

    def result(self):
        """Returns a list of each learner's dictionary, without scalars that were in no batch."""
        rows = ops.convert_to_numpy(self.metrics[0].result()) if self.metrics else []
        return [{name: float(mean) for name, mean in zip(self.names, row, strict=True) if mean == mean} for row in rows]


def statistics_of(loss, labels, embeddings, inputs_of):
    """Scalars by name of a learner's embeddings `[B, d]`, and of what the loss takes of them.

    Args:
        loss: any Keras loss; see `LossHooks.statistics`.
        labels: `[B]`.
        embeddings: `[B, d]`.
        inputs_of: function of labels and embeddings that returns what the loss is called with, the embeddings or the
            output of its layer.
    """
    distance, hooks = distances(embeddings), hooks_of(loss)
    found = {
        "positive_distance": mean_of(positive_pairs(labels), distance),
        "negative_distance": mean_of(negative_pairs(labels), distance),
    }
    # Otherwise an exchange between devices, which is never left out of a graph, would be for nothing.
    if hooks.has_statistics:
        found |= hooks.statistics(labels, tf.stop_gradient(inputs_of(labels, embeddings)))
    return found


class _Means(keras.metrics.Metric):
    """Means of an array, of its finite numbers, NaN where there were none."""

    def __init__(self, shape, **kwargs):
        super().__init__(**kwargs)
        self.total = self.add_variable(shape, "zeros", name="total")
        self.count = self.add_variable(shape, "zeros", name="count")

    def update_state(self, values, counts):
        counts = tf.where(tf.math.is_finite(values), counts, 0.0)
        self.total.assign_add(tf.where(counts > 0.0, values * counts, 0.0))
        self.count.assign_add(counts)

    def result(self):
        return ops.where(self.count > 0.0, self.total / ops.maximum(self.count, 1.0), float("nan"))
