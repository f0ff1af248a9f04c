"""Metrics of training beside the loss."""

import keras
import tensorflow as tf
from keras import ops

from tfdml.functional.distances import distances
from tfdml.functional.pairs import negative_pairs, positive_pairs
from tfdml.functional.statistics import mean_of

# They have no value in a batch without such pairs, which counts for nothing.
DISTANCES = ("positive_distance", "negative_distance")
METRICS = ("loss", "gradient_norm", *DISTANCES, "active_anchors")


class Measures:
    """Means over an epoch, held where Keras does not save them with the model."""

    def __init__(self):
        self.means = {name: keras.metrics.Mean(name=name) for name in METRICS}

    def of_evaluation(self):
        """Returns the metrics that a batch has without a step: all but the gradient's."""
        return [mean for name, mean in self.means.items() if name != "gradient_norm"]

    def update(self, measured, rows, skips_infinite):
        """Adds the values of a batch of so many rows, name to scalar, and returns their means over rows.

        Infinite and NaN values may be left out.
        """
        for name, value in measured.items():
            counts = tf.math.is_finite(value) | (name not in DISTANCES and not skips_infinite)
            weight = tf.cast(rows, "float32") * tf.cast(counts, "float32")
            self.means[name].update_state(tf.where(counts, value, 0.0), sample_weight=weight)
        return {name: self.means[name].result() for name in measured}


def measure(labels, embeddings, values):
    """Measures of a batch: on the embeddings for retrieval `[B, D]`, and on the loss of each anchor `[B]`."""
    distance = distances(tf.stop_gradient(embeddings))
    return {
        "positive_distance": mean_of(positive_pairs(labels), distance),
        "negative_distance": mean_of(negative_pairs(labels), distance),
        "active_anchors": ops.mean(ops.cast(values > 0, "float32")),
    }
