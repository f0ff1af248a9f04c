"""Distances of the two triplet losses of TensorFlow Addons."""

from collections.abc import Callable
from typing import Annotated, Any, Literal

import keras
from keras import ops

from tfdml.functional.checks import check_pairs_input
from tfdml.functional.distances import cosines, distances, squared_distances
from tfdml.functional.pairs import negative_pairs, positive_pairs
from tfdml.losses.embedding_loss import EmbeddingLoss
from tfdml.registry.arguments import Expected


def angular_distances(embeddings):
    """`[B, B]`: 1 less the cosine, from 0 to 2."""
    return ops.maximum(1.0 - cosines(embeddings), 0.0)


DISTANCE_METRICS = {"L2": distances, "squared-L2": squared_distances, "angular": angular_distances}


# `as_function` checks it.
DistanceMetric = Annotated[
    Literal["L2", "squared-L2", "angular"] | Callable[[Any], Any], Expected("a distance", lambda metric: metric)
]


def measure(y_true, y_pred, distance_metric):
    """`(distances [B, B], positive pairs, negative pairs)` of class numbers `[B]` and embeddings `[B, d]`."""
    labels, embeddings = check_pairs_input(y_true, y_pred)
    distance = as_function(distance_metric)(embeddings)
    return distance, positive_pairs(labels), negative_pairs(labels)


def as_function(distance_metric):
    """The function that a distance metric names or is, or a ValueError."""
    if callable(distance_metric):
        return distance_metric
    if distance_metric not in DISTANCE_METRICS:
        raise ValueError(
            f"Unknown distance_metric {distance_metric!r}. Expected one of {', '.join(DISTANCE_METRICS)}, or a "
            "function from embeddings [batch, dim] to distances [batch, batch]."
        )
    return DISTANCE_METRICS[distance_metric]


class TripletLoss(EmbeddingLoss):
    """Base of the triplet losses of TensorFlow Addons, which have a `distance_metric`.

    It may be a function; a model with one is loaded where Keras knows that function.

    Args:
        reduction, name, dtype: see `EmbeddingLoss`.
    """

    def check_arguments(self):
        as_function(self.distance_metric)

    @classmethod
    def from_config(cls, config):
        metric = config.get("distance_metric")
        if isinstance(metric, dict):
            config = {**config, "distance_metric": keras.saving.deserialize_keras_object(metric)}
        return cls(**config)
