"""Triplet loss of hardest positives and negatives, as in TensorFlow Addons."""

from dataclasses import KW_ONLY

import keras
from keras import ops

from tfdml.losses.addons.number import Number, Truth
from tfdml.losses.addons.triplet_loss import DistanceMetric, TripletLoss, measure


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
