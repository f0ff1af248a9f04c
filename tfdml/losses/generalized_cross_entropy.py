"""Generalized cross-entropy."""

from typing import Annotated

from keras import ops

from tfdml.functional.softmax import own_against_others
from tfdml.losses.proxy_base import SoftmaxProxyLoss
from tfdml.registry import register
from tfdml.registry.arguments import Positive, number


@register("loss", "generalized_cross_entropy")
class GeneralizedCrossEntropy(SoftmaxProxyLoss):
    """Computes the generalized cross-entropy of cosines to class proxies, which is robust to label noise.

    The loss of an anchor is `(1 - p^q) / q`, where p is the probability of its class in a softmax of cosines to
    proxies, `exp(s_y / T) / sum_j exp(s_j / T)`: Zhang and Sabuncu, Generalized Cross Entropy Loss for Training Deep
    Neural Networks with Noisy Labels, 2018. It is at most `1 / q`, so images with wrong labels, which have a small p,
    pull less than with cross-entropy. Cross-entropy is the limit for q = 0. With q = 1, the loss is `1 - p`.

    Use this loss if some labels are wrong. Any batches will do, because the loss compares images with proxies and not
    with each other. The model that you train ends with the layer of proxies, `loss.make_layer()(embeddings)`; the
    models of `tfdml.methods` create it.

    Args:
        q: Float above 0 and at most 1. With larger values, images with an improbable class pull less. Defaults to
            `0.7`.
        temperature: Float. The temperature T, which divides the cosines. Smaller values make the softmax sharper.
            Defaults to `0.1`.
        classes: Integer or `None`. Number of classes. The training command sets it. Defaults to `None`.
        sampled_classes, sampling, sharded: see `SoftmaxProxyLoss`.
        reduction, name, dtype: see `EmbeddingLoss`.

    Call arguments:
        labels: `[B]` integer class labels from 0 to C - 1.
        similarities: `[B, C]` cosines of the anchors to the proxies.

    Returns:
        `[B]`, one loss per anchor. If there is only one class, the loss is 0.

    Example:

    ```python
    similarities = np.array([[0.7, 0.1, -0.2], [0.3, 0.5, 0.4]], "float32")
    tfdml.losses.GeneralizedCrossEntropy(q=0.7, classes=3)(np.array([0, 1]), similarities)  # 0.179
    ```
    """

    q: Annotated[float, number(above=0, at_most=1)] = 0.7
    temperature: Positive = 0.1

    def call(self, labels, similarities):
        labels, similarities = self.check_taken(labels, similarities)
        entropy = own_against_others(labels, similarities, scale=self.exponent_scale)
        # The logarithm of p keeps the loss precise when p is near 1.
        return -ops.expm1(-self.q * entropy) / self.q

    @property
    def exponent_scale(self):
        return 1.0 / self.temperature
