"""Triplet loss of semi-hard negatives, as in TensorFlow Addons."""

from dataclasses import KW_ONLY

import keras
from keras import ops

from tfdml.functional.pairs import semi_hard_negative
from tfdml.losses.addons.number import Number
from tfdml.losses.addons.triplet_loss import DistanceMetric, TripletLoss, measure


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
