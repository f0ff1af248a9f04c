"""Generalized cross-entropy."""

from typing import Annotated

from keras import ops

from tfdml.functional.softmax import own_against_others
from tfdml.losses.proxy_base import SoftmaxProxyLoss
from tfdml.registry import register
from tfdml.registry.arguments import Positive, number


@register("loss", "generalized_cross_entropy")
class GeneralizedCrossEntropy(SoftmaxProxyLoss):
    """Generalized cross-entropy of cosines to class proxies, which bears wrong labels.

    The loss of an anchor is `(1 - p^q) / q`, p being the probability of its class in a softmax of cosines to proxies,
    `exp(s_y / T) / sum_j exp(s_j / T)`: Zhang and Sabuncu, Generalized Cross Entropy Loss for Training Deep Neural
    Networks with Noisy Labels, 2018. It is at most `1 / q`, so that images with wrong labels, whose p is small, pull
    less than with cross-entropy, which is the limit for q = 0. With q = 1 it is `1 - p`.

    Example: `model.compile(loss=tfdml.losses.GeneralizedCrossEntropy(q=0.7, classes=100))`.

    Args:
        q: how little images pull whose class is improbable, above 0, at most 1.
        temperature: T; smaller makes the softmax sharper.
        classes: number of classes; the training command fills it in.
        sampled_classes: classes whose proxies a step sees; None: all.
        sampling, sharded: see `SoftmaxProxyLoss`.
        reduction, name, dtype: see `EmbeddingLoss`.

    Call arguments:
        labels: `[B]` class numbers from 0 to C - 1.
        similarities: `[B, C]` cosines of the anchors to the proxies.

    Returns:
        `[B]`; 0 where there is only one class.
    """

    q: Annotated[float, number(above=0, at_most=1)] = 0.7
    temperature: Positive = 0.1

    def call(self, labels, similarities):
        labels, similarities = self.check_taken(labels, similarities)
        entropy = own_against_others(labels, similarities, scale=self.exponent_scale)
        # From the logarithm of p, precise where p is near 1.
        return -ops.expm1(-self.q * entropy) / self.q

    @property
    def exponent_scale(self):
        return 1.0 / self.temperature
