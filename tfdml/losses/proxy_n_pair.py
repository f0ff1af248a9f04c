"""Proxy N-pair loss."""

from tfdml.argument_checks import expects
from tfdml.arguments import number
from tfdml.functional.checks import check_similarities_input
from tfdml.functional.class_softmax import own_against_others
from tfdml.losses.image_proxy_loss import ImageProxyLoss
from tfdml.registry import register


@expects(margin=number(at_least=0))
def proxy_n_pair_loss(labels, similarities, *, margin=5e-4):
    """Proxy N-pair loss of each anchor: `log(1 + sum_j exp(s(x, p_j) - s(x, p_k) + margin))`, j over the other classes.

    Equation (4) of EDMS, where s are dot products at unit length and p_k is the proxy of the anchor's class.

    Args:
        labels: `[B]` class numbers from 0 to C - 1.
        similarities: `[B, C]` of the anchors to the proxies.
        margin: by how much the own proxy shall be more similar than the others.

    Returns:
        `[B]`; 0 where there is only one class.
    """
    labels, similarities = check_similarities_input(labels, similarities)
    return own_against_others(labels, similarities, own=lambda cosines: cosines - margin)


@register("loss", "proxy_n_pair")
class ProxyNPair(ImageProxyLoss):
    """Proxy N-pair loss: a softmax in which the proxy of the own class wins over the other proxies, by a margin.

    Example: `model.compile(loss=tfdml.losses.ProxyNPair(classes=100))`.
    """

    function = staticmethod(proxy_n_pair_loss)
