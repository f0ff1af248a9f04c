"""Potential field loss (PFML)."""

from dataclasses import KW_ONLY
from typing import Annotated

from keras import ops

from tfdml.functional.checks import check_class_numbers, check_pairs_input
from tfdml.functional.distances import squared_distances, unit_length
from tfdml.functional.pairs import class_mask, nan_outside, negative_pairs, positive_pairs
from tfdml.layers.loss_layer import LossInputs
from tfdml.losses.proxy_base import ProxyLoss
from tfdml.registry import register
from tfdml.registry.arguments import Count, Positive, number


@register("loss", "potential_field")
class PotentialField(ProxyLoss):
    """Computes the potential of each image in a field of images and proxies, with forces that decay with distance.

    Like an electric charge, each other image of the batch and each proxy attracts an image of the same class and repels
    all others. In contrast to most losses, near points have more influence than far points, so outliers and wrong
    labels have little. The loss of an anchor is `(sum_r psi(d_r) - sum_a psi(d_a)) / N` over the N images and proxies:
    r of other classes, a of the same class, at Euclidean distance d on the unit sphere, with `psi(d) = 1 / d^alpha`.

    It follows Bhatnagar and Ahuja, Potential Field Based Deep Metric Learning, 2025, as we understand it. It cannot be
    compared with code of the authors, who have published none. Three choices are ours: attraction ends at the distance
    `delta`; nearer than that, repulsion falls linearly to 0, as a force must that has no direction at 0; and proxies do
    not act on each other.

    Batches need several images per class for the field of images. The model that you train ends with the layer of the
    loss, `loss.make_layer()(embeddings)`; the models of `tfdml.methods` create it. Memory grows with the square of the
    batch size, and with the batch size times the number of proxies.

    Args:
        alpha: Float. How fast forces decay. With larger values, only the nearest points count. Defaults to `4.0`.
        delta: Float, at most 2. Distance at which attraction ends, and at which repulsion is strongest. Defaults to
            `0.2`.
        per_class: Integer. Number of proxies per class. Defaults to `10`.
        classes: Integer or `None`. Number of classes. The training command sets it. Defaults to `None`.
        reduction, name, dtype: see `EmbeddingLoss`.

    Call arguments:
        labels: `[B]` integer class labels from 0 to C - 1.
        embeddings: `[B, 1, d + C * per_class]`, the output of the layer: embeddings, then cosines to proxies.

    Returns:
        `[B]`, one potential per anchor. It is negative if attraction is stronger than repulsion.

    Example:

    ```python
    loss = tfdml.losses.PotentialField(classes=3, per_class=2)
    layer = loss.make_layer()
    values = loss.call(np.array([0, 0, 1]), layer(np.eye(3, 8, dtype="float32")))
    values.shape  # (3,)
    ```
    """

    alpha: Positive = 4.0
    delta: Annotated[float, number(above=0, at_most=2)] = 0.2
    _: KW_ONLY
    per_class: Count = 10

    def check_input(self, labels, embeddings):
        embeddings = ops.convert_to_tensor(embeddings)
        if len(embeddings.shape) != 3 or embeddings.shape[1] != 1:
            raise ValueError(
                "PotentialField needs embeddings followed by cosines to proxies. Expected shape [batch, 1, dim + "
                f"classes * per_class]. Received: shape={tuple(embeddings.shape)}. End the model that you train with "
                "the layer of the loss: keras.Model(inputs, loss.make_layer()(embeddings))."
            )
        labels, rows = check_pairs_input(labels, embeddings[:, 0])
        check_class_numbers(labels)
        return labels, rows[:, None]

    def label_classes(self, embeddings):
        return self.classes

    def call(self, labels, embeddings):
        labels, taken = self.check_input(labels, embeddings)
        classes = self.known_classes()
        count = classes * self.per_class
        rows, cosines = unit_length(taken[:, 0, :-count]), taken[:, 0, -count:]
        own = ops.repeat(class_mask(labels, classes), self.per_class, axis=1)
        squared = ops.concatenate([squared_distances(rows), ops.maximum(2.0 - 2.0 * cosines, 0.0)], axis=1)
        near = ops.concatenate([positive_pairs(labels), own], axis=1)
        far = ops.concatenate([negative_pairs(labels), ops.logical_not(own)], axis=1)
        # Both potentials decay beyond delta. The squared distance has a gradient everywhere.
        limit = self.delta**2
        decaying = ops.maximum(squared, limit) ** (-self.alpha / 2.0)
        bounded = ops.where(squared < limit, self.alpha / 2.0 * (1.0 - squared / limit), 0.0) * limit ** (
            -self.alpha / 2.0
        )
        potentials = ops.where(far, decaying + bounded, 0.0) - ops.where(near, decaying, 0.0)
        others = ops.cast(ops.shape(squared)[1] - 1, squared.dtype)
        return nan_outside(labels, classes, ops.sum(potentials, axis=1) / others)

    def make_layer(self):
        return LossInputs([None, super().make_layer()], [1.0, 1.0])
