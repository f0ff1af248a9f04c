"""Triplet loss of hardest positives and negatives, as in TensorFlow Addons."""

import keras
from keras import ops

from tfdml.losses.addons.triplet_loss import TripletLoss, measure


def triplet_hard_loss(y_true, y_pred, margin=1.0, soft=False, distance_metric="L2"):
    """The farthest positive's distance less the nearest negative's: the mean over anchors of its hinge or softplus.

    As in TensorFlow Addons every anchor counts. One without a positive has itself in its place; one without a negative
    has the farthest row.

    Args:
        y_true: `[B]` class numbers.
        y_pred: `[B, d]` embeddings, usually at unit length.
        margin: by how much the distances shall differ; without meaning if soft.
        soft: whether the hinge is a softplus instead: `log(1 + exp(difference))`.
        distance_metric: see `TripletLoss`.

    Returns:
        Scalar.
    """
    return ops.mean(_anchor_values(y_true, y_pred, margin, soft, distance_metric))


def _anchor_values(y_true, y_pred, margin, soft, distance_metric):
    distance, positives, negatives = measure(y_true, y_pred, distance_metric)
    lowest, highest = ops.min(distance, axis=1, keepdims=True), ops.max(distance, axis=1, keepdims=True)
    farthest = ops.max(ops.where(positives, distance, lowest), axis=1)
    nearest = ops.min(ops.where(negatives, distance, highest), axis=1)
    return ops.softplus(farthest - nearest) if soft else ops.maximum(farthest - nearest + margin, 0.0)


@keras.saving.register_keras_serializable(package="tfdml")
class TripletHardLoss(TripletLoss):
    """Triplet loss of hardest positives and negatives, in place of `tfa.losses.TripletHardLoss`.

    `tfdml.losses.Triplet(mining="batch_hard")` leaves out anchors without a positive or a negative.

    Args:
        soft: see `triplet_hard_loss`.
        margin, distance_metric, name, **kwargs: see `TripletLoss`.
    """

    def __init__(self, margin=1.0, soft=False, distance_metric="L2", name=None, **kwargs):
        super().__init__(margin, distance_metric, name, **kwargs)
        self.soft = soft

    def call(self, labels, embeddings):
        return _anchor_values(labels, embeddings, self.margin, self.soft, self.distance_metric)

    def get_config(self):
        return {**super().get_config(), "soft": self.soft}
