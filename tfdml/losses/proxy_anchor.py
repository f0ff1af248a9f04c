"""Proxy-Anchor loss."""

from keras import ops

from tfdml.functional.checks import check_similarities_input
from tfdml.functional.pairs import class_mask, log_one_plus_sum_exp, nan_outside
from tfdml.losses.proxy_base import ProxyLoss
from tfdml.registry import register
from tfdml.registry.arguments import NotNegative, Positive


@register("loss", "proxy_anchor")
class ProxyAnchor(ProxyLoss):
    """Computes the Proxy-Anchor loss: each proxy pulls images of its class and pushes others, hard ones the most.

    Every class has a proxy, a learned vector. A proxy pulls the images of its class in the batch,
    `log(1 + sum_x exp(-scale (s(x, p) - margin)))`, and pushes all others,
    `log(1 + sum_x exp(scale (s(x, p) + margin)))`. The loss is the mean of the pulls over the proxies with a class in
    the batch, plus the mean of the pushes over all proxies: equation (4) of Kim et al., Proxy Anchor Loss for Deep
    Metric Learning, 2020. A proxy's pull and push are divided evenly among the images in them, so that the mean over
    images is that loss.

    Use this loss if there are many images per class, or for long training. Batches need no positive pairs, because
    images are compared with proxies and not with each other. The model that you train ends with the layer of proxies,
    `loss.make_layer()(embeddings)`; the models of `tfdml.methods` create it.

    Args:
        scale: Float. Factor α of the exponents. With larger values, the hardest images dominate. Defaults to `32.0`.
        margin: Float. The margin δ. Cosines to an image's own proxy should be above it, cosines to other proxies below
            `-margin`. Defaults to `0.1`.
        classes: Integer or `None`. Number of classes. The training command sets it. Defaults to `None`.
        reduction, name, dtype: see `EmbeddingLoss`.

    Call arguments:
        labels: `[B]` integer class labels from 0 to C - 1.
        similarities: `[B, C]` cosines of the images to the proxies.

    Returns:
        `[B]`, the share of each image. Single values depend on the rest of the batch; their mean is the loss.

    Example:

    ```python
    similarities = np.array([[0.7, 0.1, -0.2], [0.3, 0.5, 0.4]], "float32")
    tfdml.losses.ProxyAnchor(classes=3)(np.array([0, 1]), similarities)  # 11.734
    ```
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
    """Returns each row's share `[B]` of the columns' values `[C]`, which are divided among the rows in the mask."""
    count = ops.sum(ops.cast(mask, values.dtype), axis=0)
    return ops.sum(ops.where(mask, values / ops.maximum(count, 1.0), 0.0), axis=1)
