"""Proxy N-pair loss."""

from tfdml.functional.checks import check_similarities_input
from tfdml.functional.class_softmax import own_against_others
from tfdml.losses.image_proxy_loss import ImageProxyLoss
from tfdml.registry import register
from tfdml.registry.argument_checks import expects
from tfdml.registry.arguments import number


@expects(margin=number(at_least=0), scale=number(above=0))
def proxy_n_pair_loss(labels, similarities, *, margin=5e-4, scale=1.0):
    """Proxy N-pair loss of each anchor: `log(1 + sum_j exp(scale (s_xj - s_xk + margin)))`, j over the other classes.

    Equation (4) of EDMS, which has no scale: s_xj is the dot product of the anchor x and the proxy p_j at unit length,
    and k is the class of the anchor.

    Args:
        labels: `[B]` class numbers from 0 to C - 1.
        similarities: `[B, C]` of the anchors to the proxies.
        margin: by how much the proxy of the anchor's class shall be more similar than the others.
        scale: factor of all similarities, and of the margin. With 1 anchors that are far on the right side are pulled
            nearly as much as others, because similarities differ by less than 1.

    Returns:
        `[B]`; 0 where there is only one class.
    """
    labels, similarities = check_similarities_input(labels, similarities)
    return own_against_others(labels, similarities, scale=scale, own=lambda cosines: cosines - margin)


@register("loss", "proxy_n_pair")
class ProxyNPair(ImageProxyLoss):
    """Proxy N-pair loss: a softmax in which the proxy of an image's class wins over the other proxies, by a margin.

    Example: `model.compile(loss=tfdml.losses.ProxyNPair(classes=100))`.
    """

    function = staticmethod(proxy_n_pair_loss)
