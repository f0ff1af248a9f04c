"""Metrics of training beside the loss."""

import keras
import tensorflow as tf
from keras import ops

from tfdml.functional.distances import distances
from tfdml.functional.pairs import negative_pairs, positive_pairs

METRICS = ("loss", "gradient_norm", "positive_distance", "negative_distance", "active_anchors")


class Measures:
    """Means over an epoch, held where Keras does not save them with the model."""

    def __init__(self):
        self.means = {name: keras.metrics.Mean(name=name) for name in METRICS}

    def update(self, measured, skips_infinite):
        """Adds a batch's values, name to scalar, and gives the means; infinite and NaN values may be left out."""
        for name, value in measured.items():
            counts = tf.math.is_finite(value) | (not skips_infinite)
            self.means[name].update_state(tf.where(counts, value, 0.0), sample_weight=tf.cast(counts, "float32"))
        return {name: mean.result() for name, mean in self.means.items()}


def measure(labels, embeddings, values):
    """Measures of a batch: on the embeddings for retrieval `[B, D]`, and on the loss of each anchor `[B]`."""
    distance = distances(tf.stop_gradient(embeddings))
    return {
        "positive_distance": _mean_where(positive_pairs(labels), distance),
        "negative_distance": _mean_where(negative_pairs(labels), distance),
        "active_anchors": ops.mean(ops.cast(values > 0, "float32")),
    }


def _mean_where(mask, values):
    mask = ops.cast(mask, values.dtype)
    return ops.sum(values * mask) / ops.maximum(ops.sum(mask), 1.0)
