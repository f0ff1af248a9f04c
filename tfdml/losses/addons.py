"""The metric learning losses of TensorFlow Addons 0.23 for Keras 3, with its names, arguments and values."""

from collections.abc import Callable
from dataclasses import KW_ONLY
from typing import Annotated, Any, Literal

import keras
from keras import ops

from tfdml.functional.checks import at_least_float32, check_class_numbers, check_pairs_input
from tfdml.functional.distances import cosines, distances, squared_distances
from tfdml.functional.pairs import log_sum_exp, negative_pairs, positive_pairs, semi_hard_negative
from tfdml.losses.base import EmbeddingLoss, Reduction
from tfdml.losses.lifted_structure import LiftedStructure
from tfdml.registry.arguments import Expected


@keras.saving.register_keras_serializable(package="tfdml")
class NpairsLoss(EmbeddingLoss):
    """N-pairs loss of a similarity matrix, in place of `tfa.losses.NpairsLoss`.

    It is the cross entropy of each row's softmax with its class, shared evenly among the class' columns. On
    embeddings and class numbers `tfdml.losses.NPair` makes the similarities itself.

    Args:
        reduction, name, dtype: see `EmbeddingLoss`.

    Call arguments:
        y_true: `[B]` class numbers of rows and columns.
        y_pred: `[B, B]` similarities, usually the products of two batches of embeddings.
    """

    _: KW_ONLY
    name: str | None = "npairs_loss"

    def call(self, y_true, y_pred):
        labels, similarities = check_pairs_input(y_true, y_pred)
        check_class_numbers(labels)
        rows, columns = similarities.shape
        if None not in (rows, columns) and rows != columns:
            raise ValueError(f"Expected similarities of shape [batch, batch], received shape {(rows, columns)}.")
        same = ops.cast(labels[:, None] == labels[None, :], similarities.dtype)
        targets = same / ops.sum(same, axis=1, keepdims=True)
        everywhere = ops.ones_like(similarities, dtype="bool")
        return log_sum_exp(everywhere, similarities) - ops.sum(targets * similarities, axis=1)


_ANY: Any = Expected("a number", lambda value: value)
Number = Annotated[float, _ANY]
Truth = Annotated[bool, _ANY]


@keras.saving.register_keras_serializable(package="tfdml")
class ContrastiveLoss(EmbeddingLoss):
    """Contrastive loss of pairs given as distances, in place of `tfa.losses.ContrastiveLoss`.

    A pair costs `y d^2 + (1 - y) max(0, margin - d)^2`. On embeddings and class numbers `tfdml.losses.Contrastive`
    takes all pairs of the batch instead.

    Args:
        margin: distance from which a pair of two classes costs nothing.
        reduction, name, dtype: see `EmbeddingLoss`.

    Call arguments:
        y_true: `[B]`, 1 for a pair of one class, 0 for one of two classes.
        y_pred: `[B]` distances between the two of each pair.

    Returns:
        `[B]`, one value a pair.
    """

    margin: Number = 1.0
    _: KW_ONLY
    reduction: Reduction | None = "sum_over_batch_size"
    name: str | None = "contrastive_loss"

    # Labels are those of pairs, and no class numbers.
    needs_pairs = False
    numbers_anew = False

    def check_input(self, y_true, y_pred):
        return ops.convert_to_tensor(y_true), ops.convert_to_tensor(y_pred)

    def call(self, y_true, y_pred):
        distance = at_least_float32(_flat(y_pred, "distances"))
        same = ops.cast(_flat(y_true, "labels, 1 or 0,"), distance.dtype)
        return same * ops.square(distance) + (1.0 - same) * ops.square(ops.maximum(self.margin - distance, 0.0))


def _flat(values, name):
    values = ops.convert_to_tensor(values)
    if len(values.shape) == 2 and values.shape[1] == 1:
        values = ops.squeeze(values, axis=1)
    if len(values.shape) != 1:
        raise ValueError(f"Expected {name} of shape [batch], one a pair, received shape {tuple(values.shape)}.")
    return values


@keras.saving.register_keras_serializable(package="tfdml")
class LiftedStructLoss(EmbeddingLoss):
    """Lifted structure loss, in place of `tfa.losses.LiftedStructLoss`; 0 where that had no positive pair to divide by.

    It is `tfdml.losses.LiftedStructure` in its smooth form.

    Args:
        margin: by how much negatives shall be farther.
        reduction, name, dtype: see `EmbeddingLoss`.

    Call arguments:
        labels: `[B]` class numbers.
        embeddings: `[B, d]`, better not brought to unit length.
    """

    margin: Number = 1.0
    _: KW_ONLY
    name: str | None = None

    def call(self, labels, embeddings):
        return LiftedStructure(margin=float(self.margin)).call(labels, embeddings)


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


@keras.saving.register_keras_serializable(package="tfdml")
class TripletHardLoss(TripletLoss):
    """Triplet loss of hardest positives and negatives, in place of `tfa.losses.TripletHardLoss`.

    It is the hinge or softplus of the farthest positive's distance less the nearest negative's. As in TensorFlow
    Addons every anchor counts. One without a positive has itself in its place; one without a negative has the farthest
    row. `tfdml.losses.Triplet(mining="batch_hard")` leaves out anchors without a positive or a negative.

    Args:
        margin: by how much the distances shall differ; without meaning if soft.
        soft: whether the hinge is a softplus instead: `log(1 + exp(difference))`.
        distance_metric: `L2`, `squared-L2`, `angular`, or a function from embeddings `[B, d]` to `[B, B]`; a model
            with a function is loaded where Keras knows that function.
        reduction, name, dtype: see `EmbeddingLoss`.

    Call arguments:
        y_true: `[B]` class numbers.
        y_pred: `[B, d]` embeddings, usually at unit length.
    """

    margin: Number = 1.0
    soft: Truth = False
    distance_metric: DistanceMetric = "L2"
    _: KW_ONLY
    name: str | None = None

    def call(self, y_true, y_pred):
        distance, positives, negatives = measure(y_true, y_pred, self.distance_metric)
        lowest, highest = ops.min(distance, axis=1, keepdims=True), ops.max(distance, axis=1, keepdims=True)
        farthest = ops.max(ops.where(positives, distance, lowest), axis=1)
        nearest = ops.min(ops.where(negatives, distance, highest), axis=1)
        gap = farthest - nearest
        return ops.softplus(gap) if self.soft else ops.maximum(gap + self.margin, 0.0)


@keras.saving.register_keras_serializable(package="tfdml")
class TripletSemiHardLoss(TripletLoss):
    """Triplet loss of semi-hard negatives, in place of `tfa.losses.TripletSemiHardLoss`.

    It is the hinge of every positive with the nearest negative beyond it, or else the farthest. The loss of a
    batch is the mean over positives, 0 without a positive pair. As in TensorFlow Addons a batch of one class has no
    negative, and the nearest row, the anchor itself, in its place. `tfdml.losses.Triplet(mining="semi_hard")` averages
    over each anchor's positives first, and squares distances.

    Args:
        margin: by how much the distances shall differ.
        distance_metric: `L2`, `squared-L2`, `angular`, or a function from embeddings `[B, d]` to `[B, B]`; a model
            with a function is loaded where Keras knows that function.
        reduction, name, dtype: see `EmbeddingLoss`.

    Call arguments:
        y_true: `[B]` class numbers.
        y_pred: `[B, d]` embeddings, usually at unit length.

    Returns:
        `[B]`, scaled so that their mean is the mean over positive pairs.
    """

    margin: Number = 1.0
    distance_metric: DistanceMetric = "L2"
    _: KW_ONLY
    name: str | None = None

    def call(self, y_true, y_pred):
        distance, positives, negatives = measure(y_true, y_pred, self.distance_metric)
        lowest = ops.min(distance, axis=1, keepdims=True)
        has_negative = ops.any(negatives, axis=1, keepdims=True)
        negative = ops.where(has_negative, semi_hard_negative(distance, negatives), lowest)
        hinge = ops.where(positives, ops.maximum(distance - negative + self.margin, 0.0), 0.0)
        positive_count = ops.maximum(ops.sum(ops.cast(positives, distance.dtype)), 1.0)
        return ops.sum(hinge, axis=1) * ops.cast(ops.shape(distance)[0], distance.dtype) / positive_count


__all__ = [
    "ContrastiveLoss",
    "LiftedStructLoss",
    "NpairsLoss",
    "TripletHardLoss",
    "TripletSemiHardLoss",
]
