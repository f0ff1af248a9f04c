"""Normalized softmax loss."""

from tfdml.functional.softmax import own_against_others
from tfdml.losses.softmax_proxy_loss import SoftmaxProxyLoss
from tfdml.registry import register
from tfdml.registry.arguments import Positive


@register("loss", "norm_softmax")
class NormSoftmax(SoftmaxProxyLoss):
    """Normalized softmax: cross-entropy of cosines to one proxy of each class, divided by a temperature.

    The loss of an anchor is `-log(exp(s_y / T) / sum_j exp(s_j / T))`, s being cosines to proxies and y its class: Zhai
    and Wu, Classification is a Strong Baseline for Deep Metric Learning, 2019.

    Example: `model.compile(loss=tfdml.losses.NormSoftmax(classes=100))`.

    Args:
        temperature: T; smaller makes the loss sharper.
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

    temperature: Positive = 0.05

    def call(self, labels, similarities):
        labels, similarities = self.check_taken(labels, similarities)
        return own_against_others(labels, similarities, scale=self.exponent_scale)

    @property
    def exponent_scale(self):
        return 1.0 / self.temperature
