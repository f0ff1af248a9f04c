"""Proxy-NCA loss."""

from tfdml.functional.softmax import others_over_own, own_against_others
from tfdml.losses.softmax_proxy_loss import SoftmaxProxyLoss
from tfdml.registry import register
from tfdml.registry.arguments import Positive


@register("loss", "proxy_nca")
class ProxyNCA(SoftmaxProxyLoss):
    """Proxy-NCA: each class has a proxy, which its images come nearer to than to all other proxies.

    The loss of an anchor is `log sum_z exp(-s d(x, p(z))) + s d(x, p(y))`, z over the other classes: equation (4) of
    Movshovitz-Attias et al., No Fuss Distance Metric Learning using Proxies, 2017, where d is the squared distance on
    the sphere, `2 - 2 cos`, and s is 1.

    Example: `model.compile(loss=tfdml.losses.ProxyNCA(classes=100))`.

    Args:
        scale: factor s of all distances, by which the sphere grows; larger makes the loss sharper.
        exclude_positive: whether the anchor's own proxy is left out of the sum, as the definition has it. With it the
            loss is a softmax over all proxies (Teh et al., ProxyNCA++, 2020).
        classes: number of classes; the training command fills it in.
        sampled_classes: classes whose proxies a step sees; None: all.
        sampling, sharded: see `SoftmaxProxyLoss`.
        reduction, name, dtype: see `EmbeddingLoss`.

    Call arguments:
        labels: `[B]` class numbers from 0 to C - 1.
        similarities: `[B, C]` cosines of the anchors to the proxies.

    Returns:
        `[B]`; below 0 where the class's proxy is nearer than all others by more than their number makes up for.
    """

    scale: Positive = 1.0
    exclude_positive: bool = True

    def call(self, labels, similarities):
        labels, similarities = self.check_taken(labels, similarities)
        # Of a difference of distances, 2 - 2 cos, the cosines remain. With one class there is nothing to compare with.
        if self.exclude_positive and similarities.shape[1] > 1:
            return others_over_own(labels, similarities, scale=self.exponent_scale)
        return own_against_others(labels, similarities, scale=self.exponent_scale)

    @property
    def exponent_scale(self):
        return 2.0 * self.scale
