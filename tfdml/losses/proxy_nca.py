"""Proxy-NCA and proxy N-pair losses."""

from tfdml.functional.checks import check_similarities_input
from tfdml.functional.softmax import others_over_own, own_against_others
from tfdml.losses.proxy_base import ImageProxyLoss, SoftmaxProxyLoss
from tfdml.registry import register
from tfdml.registry.arguments import NotNegative, Positive


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


@register("loss", "proxy_n_pair")
class ProxyNPair(ImageProxyLoss):
    """Proxy N-pair loss: a softmax in which the proxy of an image's class wins over the other proxies, by a margin.

    The loss of an anchor is `log(1 + sum_j exp(scale (s_xj - s_xk + margin)))`, j over the other classes: equation (4)
    of EDMS, which has no scale. s_xj is the dot product of the anchor x and the proxy p_j at unit length, and k is the
    class of the anchor.

    Example: `model.compile(loss=tfdml.losses.ProxyNPair(classes=100))`.

    Args:
        margin: by how much the proxy of the anchor's class shall be more similar than the others.
        scale: factor of all similarities, and of the margin. With 1 anchors that are far on the right side are pulled
            nearly as much as others, because similarities differ by less than 1.
        classes: number of classes; the training command fills it in.
        proxies: `learnt`, or features of `images`, or `hard` ones, see `ImageProxyLoss`.
        proxy_steps, proxy_rate, proxy_tolerance: of `hard`, see `ImageProxyLoss`.
        reduction, name, dtype: see `EmbeddingLoss`.

    Call arguments:
        labels: `[B]` class numbers from 0 to C - 1.
        similarities: `[B, C]` of the anchors to the proxies.

    Returns:
        `[B]`; 0 where there is only one class.
    """

    margin: NotNegative = 5e-4
    scale: Positive = 1.0

    def call(self, labels, similarities):
        labels, similarities = check_similarities_input(labels, similarities)
        return own_against_others(labels, similarities, scale=self.scale, own=lambda cosines: cosines - self.margin)
