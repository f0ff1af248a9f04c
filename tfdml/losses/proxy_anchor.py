"""Proxy-Anchor loss."""

from keras import ops

from tfdml.functional.checks import check_similarities_input
from tfdml.functional.pairs import class_mask, log_one_plus_sum_exp, nan_outside
from tfdml.losses.proxy_base import ProxyLoss
from tfdml.registry import register
from tfdml.registry.arguments import NotNegative, Positive


@register("loss", "proxy_anchor")
class ProxyAnchor(ProxyLoss):
    """Proxy-Anchor: each proxy pulls the images of its class in the batch and pushes the others, hard ones most.

    Equation (4) of Kim et al., Proxy Anchor Loss for Deep Metric Learning, 2020. A proxy pulls the images of its class,
    `log(1 + sum_x exp(-scale (s(x, p) - margin)))`, and pushes all others,
    `log(1 + sum_x exp(scale (s(x, p) + margin)))`. The loss is the mean of the pulls over the proxies whose class is in
    the batch, plus the mean of the pushes over all proxies. Here a proxy's pull and push are shared out evenly among
    the images in them, so that the mean of the values is that loss.

    Example: `model.compile(loss=tfdml.losses.ProxyAnchor(classes=100))`.

    Args:
        scale: factor α of the exponents.
        margin: δ; cosines to an image's class shall be above it, those to others below its negative.
        classes: number of classes; the training command fills it in.
        reduction, name, dtype: see `EmbeddingLoss`.

    Call arguments:
        labels: `[B]` class numbers from 0 to C - 1.
        similarities: `[B, C]` cosines of the images to the proxies.

    Returns:
        `[B]`; the single values depend on the batch, whose mean is meant.
    """

    scale: Positive = 32.0
    margin: NotNegative = 0.1

    def call(self, labels, similarities):
        labels, similarities = check_similarities_input(labels, similarities)
        classes = similarities.shape[1]
        own = class_mask(labels, classes)
        others = ops.logical_not(own)
        pull = log_one_plus_sum_exp(ops.transpose(own), ops.transpose(-self.scale * (similarities - self.margin)))
        push = log_one_plus_sum_exp(ops.transpose(others), ops.transpose(self.scale * (similarities + self.margin)))
        present = ops.sum(ops.cast(ops.any(own, axis=0), pull.dtype))
        pulls = _shared_out(own, pull) / ops.maximum(present, 1.0)
        pushes = _shared_out(others, push) / classes
        size = ops.cast(ops.shape(similarities)[0], pull.dtype)
        return nan_outside(labels, classes, size * (pulls + pushes))


def _shared_out(mask, values):
    """Shares `[B]` of each column's value `[C]`, even among the rows of `[B, C]` where the mask is True."""
    count = ops.sum(ops.cast(mask, values.dtype), axis=0)
    return ops.sum(ops.where(mask, values / ops.maximum(count, 1.0), 0.0), axis=1)
