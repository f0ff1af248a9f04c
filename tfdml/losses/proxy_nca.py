"""Proxy-NCA loss."""

from tfdml.functional.checks import check_similarities_input
from tfdml.functional.class_softmax import others_over_own, own_against_others
from tfdml.losses.softmax_proxy_loss import SoftmaxProxyLoss
from tfdml.registry import register
from tfdml.registry.argument_checks import expects
from tfdml.registry.arguments import number


@expects(scale=number(above=0))
def proxy_nca_loss(labels, similarities, *, scale=1.0, exclude_positive=True):
    """Proxy-NCA loss of each anchor: `log sum_z exp(-s d(x, p(z))) + s d(x, p(y))`, z over the other classes.

    Equation (4) of Movshovitz-Attias et al., No Fuss Distance Metric Learning using Proxies, 2017, where d is the
    squared distance on the sphere, `2 - 2 cos`, and s is 1.

    Args:
        labels: `[B]` class numbers from 0 to C - 1.
        similarities: `[B, C]` cosines of the anchors to the proxies.
        scale: factor s of all distances, by which the sphere grows; larger makes the loss sharper.
        exclude_positive: whether the anchor's own proxy is left out of the sum, as the definition has it. With it the
            loss is a softmax over all proxies (Teh et al., ProxyNCA++, 2020).

    Returns:
        `[B]`; below 0 where the class's proxy is nearer than all others by more than their number makes up for.
    """
    labels, similarities = check_similarities_input(labels, similarities)
    # Of a difference of distances, 2 - 2 cos, the cosines remain. With one class there is nothing to compare with.
    if exclude_positive and similarities.shape[1] > 1:
        return others_over_own(labels, similarities, scale=2.0 * scale)
    return own_against_others(labels, similarities, scale=2.0 * scale)


@register("loss", "proxy_nca")
class ProxyNCA(SoftmaxProxyLoss):
    """Proxy-NCA: each class has a proxy, which its images come nearer to than to all other proxies.

    Example: `model.compile(loss=tfdml.losses.ProxyNCA(classes=100))`.
    """

    function = staticmethod(proxy_nca_loss)

    @property
    def exponent_scale(self):
        return 2.0 * self.scale
