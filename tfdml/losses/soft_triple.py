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
    """SoftTriple: cross-entropy of cosines to classes that have several centers each; the loss merges spare ones.

    The loss of an anchor is
    `-log(exp(scale (S_y - margin)) / (exp(scale (S_y - margin)) + sum_j exp(scale S_j)))`, j over the other classes,
    where `S_j = sum_k q_k s_jk` is the mean of the cosines s to the centers of class j, weighted by their softmax
    `q_k ~ exp(s_jk / center_temperature)`. Qian et al., SoftTriple Loss: Deep Metric Learning Without Triplet Sampling,
    2019; the part that merges centers depends on them alone and is `tfdml.layers.CenterMerging`.

    Example: `model.compile(loss=tfdml.losses.SoftTriple(classes=100))`.

    Args:
        scale: factor λ of the similarities to classes.
        center_temperature: γ; smaller makes the nearest center count alone.
        margin: δ, by how much the similarity to the anchor's class shall be higher than those to others.
        per_class: centers of each class.
        merging: weight τ of what merges centers, for `make_layer`, see `tfdml.layers.CenterMerging`; 0: nothing does.
        classes: number of classes; the training command fills it in.
        reduction, name, dtype: see `EmbeddingLoss`.

    Call arguments:
        labels: `[B]` class numbers from 0 to C - 1.
        similarities: `[B, C, n]` cosines of the anchors to n centers of each class, or `[B, C]`.

    Returns:
        `[B]`; 0 where there is only one class.
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
    """The mean `[B, C]` of similarities `[B, C, n]`, weighted by their softmax."""

    @known_gradient
    def weighted_mean(similarities):
        highest = ops.max(similarities, axis=2, keepdims=True)
        exponentials = ops.exp((similarities - highest) * (1.0 / temperature))
        total = ops.sum(exponentials, axis=2)
        mean = ops.sum(exponentials * similarities, axis=2) / total

        def gradient(upstream):
            # Of a weight q_k: (1 + (s_k - mean) / temperature) q_k. What is [B, C] is computed first.
            factor = upstream / total
            slope = factor / temperature
            return exponentials * (similarities * slope[:, :, None] + (factor - slope * mean)[:, :, None])

        return mean, gradient

    return weighted_mean(similarities)
