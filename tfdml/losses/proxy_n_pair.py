"""Proxy N-pair loss."""

from tfdml.functional.checks import check_similarities_input
from tfdml.functional.softmax import own_against_others
from tfdml.losses.image_proxy_loss import ImageProxyLoss
from tfdml.registry import register
from tfdml.registry.arguments import NotNegative, Positive


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
