"""Triplet loss of semi-hard negatives, as in TensorFlow Addons."""

import keras
from keras import ops

from tfdml.functional.mining import semi_hard_negative
from tfdml.losses.addons.triplet_loss import TripletLoss, measure


def triplet_semihard_loss(y_true, y_pred, margin=1.0, distance_metric="L2"):
    """The hinge of every positive with the nearest negative beyond it, or else the farthest: the mean over positives.

    As in TensorFlow Addons a batch of one class has no negative, and the nearest row, the anchor itself, in its place.

    Args:
        y_true: `[B]` class numbers.
        y_pred: `[B, d]` embeddings, usually at unit length.
        margin: by how much the distances shall differ.
        distance_metric: see `TripletLoss`.

    Returns:
        Scalar; 0 without a positive pair.
    """
    return ops.mean(_anchor_values(y_true, y_pred, margin, distance_metric))


def _anchor_values(y_true, y_pred, margin, distance_metric):
    """`[B]`, scaled so that their mean is the mean over positive pairs."""
    distance, positives, negatives = measure(y_true, y_pred, distance_metric)
    lowest = ops.min(distance, axis=1, keepdims=True)
    has_negative = ops.any(negatives, axis=1, keepdims=True)
    negative = ops.where(has_negative, semi_hard_negative(distance, negatives), lowest)
    hinge = ops.where(positives, ops.maximum(distance - negative + margin, 0.0), 0.0)
    positive_count = ops.maximum(ops.sum(ops.cast(positives, distance.dtype)), 1.0)
    return ops.sum(hinge, axis=1) * ops.cast(ops.shape(distance)[0], distance.dtype) / positive_count


@keras.saving.register_keras_serializable(package="tfdml")
class TripletSemiHardLoss(TripletLoss):
    """Triplet loss of semi-hard negatives, in place of `tfa.losses.TripletSemiHardLoss`.

    `tfdml.losses.Triplet(mining="semi_hard")` averages over each anchor's positives first, and squares distances.

    Args:
        margin, distance_metric, name, **kwargs: see `TripletLoss`.
    """

    def call(self, labels, embeddings):
        return _anchor_values(labels, embeddings, self.margin, self.distance_metric)
