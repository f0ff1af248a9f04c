"""SoftTriple loss."""

from dataclasses import KW_ONLY

from keras import ops

from tfdml.functional.checks import check_similarities_input
from tfdml.functional.distances import known_gradient
from tfdml.functional.softmax import own_against_others
from tfdml.layers.proxies import Proxies
from tfdml.layers.tokens import CenterMerging
from tfdml.losses.proxy_base import ProxyLoss
from tfdml.registry import register
from tfdml.registry.arguments import Count, NotNegative, Positive


@register("loss", "soft_triple")
class SoftTriple(ProxyLoss):
    """Computes the SoftTriple loss: a softmax over classes that have several centers each.

    A class can have several kinds of images, each with its own center. The loss of an anchor is `-log(exp(scale (S_y -
    margin)) / (exp(scale (S_y - margin)) + sum_j exp(scale S_j)))`, j over the other classes, where
    `S_j = sum_k q_k s_jk` is the mean of the cosines s to the centers of class j, weighted by their softmax
    `q_k ~ exp(s_jk / center_temperature)`. It is from Qian et al., SoftTriple Loss: Deep Metric Learning Without
    Triplet Sampling, 2019. The part that merges unnecessary centers depends on the centers alone and is
    `tfdml.layers.CenterMerging`.

    Use this loss for classes with several kinds of images. Any batches will do, because the loss compares images with
    proxies and not with each other. The model that you train ends with the layer of proxies,
    `loss.make_layer()(embeddings)`; the models of `tfdml.methods` create it.

    Args:
        scale: Float. Factor λ of the similarities to classes. Larger values make the softmax sharper. Defaults to
            `20.0`.
        center_temperature: Float. The temperature γ. With smaller values, only the nearest center of a class counts.
            Defaults to `0.1`.
        margin: Float. The margin δ: the minimum difference between the similarity to the anchor's own class and the
            similarities to others. Defaults to `0.01`.
        per_class: Integer. Number of centers per class. Defaults to `10`.
        merging: Float. Weight τ of the regularizer that merges centers, which `make_layer` adds to the layer; see
            `tfdml.layers.CenterMerging`. If 0, nothing merges them. Defaults to `0.2`.
        classes: Integer or `None`. Number of classes. The training command sets it. Defaults to `None`.
        reduction, name, dtype: see `EmbeddingLoss`.

    Call arguments:
        labels: `[B]` integer class labels from 0 to C - 1.
        similarities: `[B, C, n]` cosines of the anchors to n centers of each class, or `[B, C]`.

    Returns:
        `[B]`, one loss per anchor. If there is only one class, the loss is 0.

    Example:

    ```python
    similarities = np.array([[[0.7, 0.1], [0.2, -0.2]], [[0.3, 0.1], [0.4, 0.5]]], "float32")
    tfdml.losses.SoftTriple(per_class=2, classes=2)(np.array([0, 1]), similarities)  # 0.012
    ```
    """

    scale: Positive = 20.0
    center_temperature: Positive = 0.1
    margin: NotNegative = 0.01
    _: KW_ONLY
    per_class: Count = 10
    merging: NotNegative = 0.2

    def call(self, labels, similarities):
        similarities = ops.convert_to_tensor(similarities)
        labels, similarities = check_similarities_input(labels, similarities, several=len(similarities.shape) == 3)
        if len(similarities.shape) == 3:
            similarities = _to_classes(similarities, self.center_temperature)
        return own_against_others(labels, similarities, scale=self.scale, own=lambda cosines: cosines - self.margin)

    def make_layer(self):
        merges = self.merging and self.per_class > 1
        regularizer = CenterMerging(self.per_class, self.merging) if merges else None
        return Proxies(self.known_classes(), per_class=self.per_class, regularizer=regularizer)


def _to_classes(similarities, temperature):
    """Returns the mean `[B, C]` of similarities `[B, C, n]`, weighted by their softmax."""

    @known_gradient
    def weighted_mean(similarities):
        highest = ops.max(similarities, axis=2, keepdims=True)
        exponentials = ops.exp((similarities - highest) * (1.0 / temperature))
        total = ops.sum(exponentials, axis=2)
        mean = ops.sum(exponentials * similarities, axis=2) / total

        def gradient(upstream):
            # The derivative is (1 + (s_k - mean) / temperature) q_k for a weight q_k. Factors [B, C] come first.
            factor = upstream / total
            slope = factor / temperature
            return exponentials * (similarities * slope[:, :, None] + (factor - slope * mean)[:, :, None])

        return mean, gradient

    return weighted_mean(similarities)
