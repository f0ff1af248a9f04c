"""SoftTriple loss."""

from keras import ops

from tfdml.functional.checks import check_similarities_input
from tfdml.functional.class_softmax import own_against_others
from tfdml.functional.known_gradient import known_gradient
from tfdml.layers.center_merging import CenterMerging
from tfdml.layers.proxies import Proxies
from tfdml.losses.proxy_loss import ProxyLoss
from tfdml.registry import register
from tfdml.registry.argument_checks import expects
from tfdml.registry.arguments import integer, number


@expects(scale=number(above=0), center_temperature=number(above=0), margin=number(at_least=0))
def soft_triple_loss(labels, similarities, *, scale=20.0, center_temperature=0.1, margin=0.01):
    """SoftTriple loss of each anchor: a softmax of similarities to classes with several centers each.

    `-log(exp(scale (S_y - margin)) / (exp(scale (S_y - margin)) + sum_j exp(scale S_j)))`, j over the other classes,
    where `S_j = sum_k q_k s_jk` is the mean of the cosines s to the centers of class j, weighted by their softmax
    `q_k ~ exp(s_jk / center_temperature)`. Qian et al., SoftTriple Loss: Deep Metric Learning Without Triplet Sampling,
    2019; the part that merges centers depends on them alone and is `tfdml.layers.CenterMerging`.

    Args:
        labels: `[B]` class numbers from 0 to C - 1.
        similarities: `[B, C, n]` cosines of the anchors to n centers of each class, or `[B, C]`.
        scale: factor λ of the similarities to classes.
        center_temperature: γ; smaller makes the nearest center count alone.
        margin: δ, by how much the similarity to the anchor's class shall be higher than those to others.

    Returns:
        `[B]`; 0 where there is only one class.
    """
    similarities = ops.convert_to_tensor(similarities)
    labels, similarities = check_similarities_input(labels, similarities, several=len(similarities.shape) == 3)
    if len(similarities.shape) == 3:
        similarities = _to_classes(similarities, center_temperature)
    return own_against_others(labels, similarities, scale=scale, own=lambda cosines: cosines - margin)


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


@register("loss", "soft_triple", per_class=integer(1), merging=number(at_least=0))
class SoftTriple(ProxyLoss):
    """SoftTriple: cross-entropy of cosines to classes that have several centers each; the loss merges spare ones.

    Example: `model.compile(loss=tfdml.losses.SoftTriple(classes=100))`.

    Args:
        per_class: centers of each class.
        merging: weight τ of what merges centers, for `make_layer`, see `tfdml.layers.CenterMerging`; 0: nothing does.
    """

    function = staticmethod(soft_triple_loss)
    per_class: int = 10
    merging: float = 0.2

    def make_layer(self):
        merges = self.merging and self.per_class > 1
        regularizer = CenterMerging(self.per_class, self.merging) if merges else None
        return Proxies(self.known_classes(), per_class=self.per_class, regularizer=regularizer)
