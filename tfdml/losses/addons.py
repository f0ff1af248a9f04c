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
    """Computes the N-pairs loss of a similarity matrix, a replacement for `tfa.losses.NpairsLoss`.

    The loss is the cross-entropy of each row's softmax with its class, divided evenly among the columns of the class.
    For embeddings and class labels, use `tfdml.losses.NPair`, which computes the similarities itself.

    Args:
        reduction, name, dtype: see `EmbeddingLoss`.

    Call arguments:
        y_true: `[B]` integer class labels of rows and columns.
        y_pred: `[B, B]` similarities, usually the products of two batches of embeddings.

    Returns:
        `[B]`, one loss per row.

    Raises:
        ValueError: If labels are not `[B]` or similarities are not square.

    Example:

    ```python
    labels = np.array([0, 0, 1, 1])
    embeddings = np.array([[1, 0], [0.8, 0.6], [0, 1], [0.6, 0.8]], "float32")
    tfdml.losses.addons.NpairsLoss()(labels, embeddings @ embeddings.T)  # 1.244
    ```
    """

    _: KW_ONLY
    name: str | None = "npairs_loss"

    def call(self, y_true, y_pred):
        labels, similarities = check_pairs_input(y_true, y_pred)
        check_class_numbers(labels)
        return _cross_entropy(ops.cast(labels[:, None] == labels[None, :], similarities.dtype), similarities)


@keras.saving.register_keras_serializable(package="tfdml")
class NpairsMultilabelLoss(EmbeddingLoss):
    """Computes the N-pairs loss of images with several labels, a replacement for `tfa.losses.NpairsMultilabelLoss`.

    The loss is the cross-entropy of each row's softmax with the columns, in proportion to the number of labels that the
    row shares with each column. For embeddings, use a loss on pairs, such as `SupCon`, with boolean labels.

    Args:
        reduction, name, dtype: see `EmbeddingLoss`.

    Call arguments:
        y_true: `[B, C]`, 1 if the image has a label and 0 if not. Each image must have a label.
        y_pred: `[B, B]` similarities, usually the products of two batches of embeddings.

    Returns:
        `[B]`, one loss per row.

    Raises:
        ValueError: If labels are not `[B, C]` or similarities are not square.

    Example:

    ```python
    labels = np.array([[1, 0, 1], [1, 0, 0], [0, 1, 0], [0, 1, 1]])
    embeddings = np.array([[1, 0], [0.8, 0.6], [0, 1], [0.6, 0.8]], "float32")
    tfdml.losses.addons.NpairsMultilabelLoss()(labels, embeddings @ embeddings.T)  # 1.269
    ```
    """

    _: KW_ONLY
    name: str | None = "npairs_multilabel_loss"

    # Several labels of an image are not classes.
    needs_pairs = False
    numbers_anew = False

    def check_input(self, y_true, y_pred):
        labels, similarities = ops.convert_to_tensor(y_true), at_least_float32(ops.convert_to_tensor(y_pred))
        if len(labels.shape) != 2:
            raise ValueError(f"Expected labels of shape [batch, labels]. Received: shape={tuple(labels.shape)}.")
        # As integers, they would be levels of a hierarchy.
        return ops.cast(labels, "bool"), similarities

    def call(self, y_true, y_pred):
        labels, similarities = self.check_input(y_true, y_pred)
        has = ops.cast(labels, similarities.dtype)
        return _cross_entropy(ops.matmul(has, ops.transpose(has)), similarities)


def _cross_entropy(relevance, similarities):
    """Returns the cross-entropy `[B]` of each row's softmax with the shares of its relevance."""
    rows, columns = similarities.shape
    if None not in (rows, columns) and rows != columns:
        raise ValueError(f"Expected similarities of shape [batch, batch]. Received: shape={(rows, columns)}.")
    total = ops.sum(relevance, axis=1, keepdims=True)
    targets = relevance / ops.where(total == 0.0, 1.0, total)
    everywhere = ops.ones_like(similarities, dtype="bool")
    return log_sum_exp(everywhere, similarities) - ops.sum(targets * similarities, axis=1)


_ANY: Any = Expected("a number", lambda value: value)
Number = Annotated[float, _ANY]
Truth = Annotated[bool, _ANY]


@keras.saving.register_keras_serializable(package="tfdml")
class ContrastiveLoss(EmbeddingLoss):
    """Computes the contrastive loss from the distances of pairs, a replacement for `tfa.losses.ContrastiveLoss`.

    A pair costs `y d^2 + (1 - y) max(0, margin - d)^2`. For embeddings and class labels, use
    `tfdml.losses.Contrastive`, which compares all pairs of the batch.

    Args:
        margin: Float. Distance from which a pair of two classes costs nothing. Defaults to `1.0`.
        reduction, name, dtype: see `EmbeddingLoss`.

    Call arguments:
        y_true: `[B]`, 1 for a pair of one class, 0 for a pair of two classes.
        y_pred: `[B]` distances between the two images of each pair.

    Returns:
        `[B]`, one loss per pair.

    Raises:
        ValueError: If labels or distances are neither `[B]` nor `[B, 1]`.

    Example:

    ```python
    distances = np.array([0.5, 0.8], "float32")
    tfdml.losses.addons.ContrastiveLoss()(np.array([1, 0]), distances)  # 0.145
    ```
    """

    margin: Number = 1.0
    _: KW_ONLY
    reduction: Reduction | None = "sum_over_batch_size"
    name: str | None = "contrastive_loss"

    # Labels belong to pairs and are not class labels.
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
        raise ValueError(f"Expected {name} of shape [batch], one per pair. Received: shape={tuple(values.shape)}.")
    return values


@keras.saving.register_keras_serializable(package="tfdml")
class LiftedStructLoss(EmbeddingLoss):
    """Computes the lifted structure loss, a replacement for `tfa.losses.LiftedStructLoss`.

    It is `tfdml.losses.LiftedStructure` in its smooth form. If a batch has no positive pair, the loss is 0, whereas
    TensorFlow Addons divided by zero.

    Args:
        margin: Float. Distance by which negatives should be farther apart than positives. Defaults to `1.0`.
        reduction, name, dtype: see `EmbeddingLoss`.

    Call arguments:
        labels: `[B]` integer class labels.
        embeddings: `[B, d]`, preferably not L2-normalized.

    Returns:
        `[B]`, one loss per anchor, as in `tfdml.losses.LiftedStructure`.

    Example:

    ```python
    labels = np.array([0, 0, 1, 1])
    embeddings = np.array([[1, 0], [0.8, 0.6], [0, 1], [0.6, 0.8]], "float32")
    tfdml.losses.addons.LiftedStructLoss()(labels, embeddings)  # 2.483
    ```
    """

    margin: Number = 1.0
    _: KW_ONLY
    name: str | None = None

    def call(self, labels, embeddings):
        return LiftedStructure(margin=float(self.margin)).call(labels, embeddings)


def angular_distances(embeddings):
    """Returns 1 minus the cosine of each pair, `[B, B]` from 0 to 2."""
    return ops.maximum(1.0 - cosines(embeddings), 0.0)


DISTANCE_METRICS = {"L2": distances, "squared-L2": squared_distances, "angular": angular_distances}


# Any value is accepted here, because `as_function` checks it.
DistanceMetric = Annotated[
    Literal["L2", "squared-L2", "angular"] | Callable[[Any], Any], Expected("a distance", lambda metric: metric)
]


def measure(y_true, y_pred, distance_metric):
    """Returns distances `[B, B]` and the masks of positive and negative pairs."""
    labels, embeddings = check_pairs_input(y_true, y_pred)
    distance = as_function(distance_metric)(embeddings)
    return distance, positive_pairs(labels), negative_pairs(labels)


def as_function(distance_metric):
    """Returns the function of a distance metric, or raises a ValueError if the name is unknown."""
    if callable(distance_metric):
        return distance_metric
    if distance_metric not in DISTANCE_METRICS:
        raise ValueError(
            f"distance_metric must be one of {', '.join(DISTANCE_METRICS)}, or a function from embeddings [batch, dim] "
            f"to distances [batch, batch]. Received: distance_metric={distance_metric!r}."
        )
    return DISTANCE_METRICS[distance_metric]


class TripletLoss(EmbeddingLoss):
    """Base class of the triplet losses of TensorFlow Addons, which have a `distance_metric`.

    The metric can be a function. A model with a function can be loaded only if Keras knows that function.

    Args:
        reduction, name, dtype: see `EmbeddingLoss`.

    Raises:
        ValueError: If `distance_metric` is not a function and not one of the known names.
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
    """Computes the triplet loss of hardest positives and negatives, a replacement for `tfa.losses.TripletHardLoss`.

    The loss is the hinge or softplus of the farthest positive's distance minus the nearest negative's distance. As in
    TensorFlow Addons, every anchor counts. An anchor without a positive uses itself as the positive, and an anchor
    without a negative uses the farthest row. `tfdml.losses.Triplet(mining="batch_hard")` ignores anchors without a
    positive or a negative.

    Args:
        margin: Float. Minimum gap between the two distances. Not used if `soft=True`. Defaults to `1.0`.
        soft: Boolean. Whether to use a softplus instead of the hinge: `log(1 + exp(difference))`. Defaults to `False`.
        distance_metric: `"L2"`, `"squared-L2"`, `"angular"`, or a function from embeddings `[B, d]` to distances
            `[B, B]`. A model with a function can be loaded only if Keras knows that function. Defaults to `"L2"`.
        reduction, name, dtype: see `EmbeddingLoss`.

    Call arguments:
        y_true: `[B]` integer class labels.
        y_pred: `[B, d]` embeddings, usually L2-normalized.

    Returns:
        `[B]`, one loss per anchor.

    Raises:
        ValueError: If `distance_metric` is not a function and not one of the known names.

    Example:

    ```python
    labels = np.array([0, 0, 1, 1])
    embeddings = np.array([[1, 0], [0.8, 0.6], [0, 1], [0.6, 0.8]], "float32")
    tfdml.losses.addons.TripletHardLoss()(labels, embeddings)  # 1.044
    ```
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
    """Computes the triplet loss of semi-hard negatives, a replacement for `tfa.losses.TripletSemiHardLoss`.

    The loss is the hinge of every positive with the nearest negative that is farther away, or else with the farthest
    negative. The loss of a batch is the mean over positive pairs, or 0 without a positive pair. As in TensorFlow
    Addons, a batch of a single class has no negative and uses the nearest row, the anchor itself, instead.
    `tfdml.losses.Triplet(mining="semi_hard")` averages over each anchor's positives first and squares distances.

    Args:
        margin: Float. Minimum gap between the two distances. Defaults to `1.0`.
        distance_metric: `"L2"`, `"squared-L2"`, `"angular"`, or a function from embeddings `[B, d]` to distances
            `[B, B]`. A model with a function can be loaded only if Keras knows that function. Defaults to `"L2"`.
        reduction, name, dtype: see `EmbeddingLoss`.

    Call arguments:
        y_true: `[B]` integer class labels.
        y_pred: `[B, d]` embeddings, usually L2-normalized.

    Returns:
        `[B]`, scaled so that their mean is the mean over positive pairs.

    Raises:
        ValueError: If `distance_metric` is not a function and not one of the known names.

    Example:

    ```python
    labels = np.array([0, 0, 1, 1])
    embeddings = np.array([[1, 0], [0.8, 0.6], [0, 1], [0.6, 0.8]], "float32")
    tfdml.losses.addons.TripletSemiHardLoss()(labels, embeddings)  # 0.738
    ```
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
    "NpairsMultilabelLoss",
    "TripletHardLoss",
    "TripletSemiHardLoss",
]
