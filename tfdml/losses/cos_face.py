"""CosFace and normalized softmax losses."""

from tfdml.functional.softmax import own_against_others
from tfdml.losses.proxy_base import SoftmaxProxyLoss
from tfdml.registry import register
from tfdml.registry.arguments import NotNegative, Positive


@register("loss", "cos_face")
class CosFace(SoftmaxProxyLoss):
    """CosFace: cross-entropy of scaled cosines to class proxies, with a margin less for an image's own class.

    The loss of an anchor is a softmax of `scale cos_j` with `scale (cos_y - margin)` for its class y,
    `-log(exp(s (cos_y - m)) / (exp(s (cos_y - m)) + sum_j exp(s cos_j)))`, j over the other classes: Wang et al.,
    CosFace: Large Margin Cosine Loss for Deep Face Recognition, 2018.

    Example: `model.compile(loss=tfdml.losses.CosFace(classes=100))`.

    Args:
        scale: factor s of all cosines.
        margin: m, by how much the cosine to its class shall be higher than those to others.
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

    scale: Positive = 64.0
    margin: NotNegative = 0.35

    def call(self, labels, similarities):
        labels, similarities = self.check_taken(labels, similarities)
        return own_against_others(labels, similarities, scale=self.scale, own=lambda cosines: cosines - self.margin)


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
