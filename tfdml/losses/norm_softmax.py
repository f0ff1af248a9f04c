"""Normalized softmax loss."""

from tfdml.functional.checks import check_similarities_input
from tfdml.functional.class_softmax import own_against_others
from tfdml.losses.softmax_proxy_loss import SoftmaxProxyLoss
from tfdml.registry import register
from tfdml.registry.argument_checks import expects
from tfdml.registry.arguments import number


@expects(temperature=number(above=0))
def norm_softmax_loss(labels, similarities, *, temperature=0.05):
    """Normalized softmax loss of each anchor: `-log(exp(s_y / T) / sum_j exp(s_j / T))`, s being cosines to proxies.

    Zhai and Wu, Classification is a Strong Baseline for Deep Metric Learning, 2019.

    Args:
        labels: `[B]` class numbers from 0 to C - 1.
        similarities: `[B, C]` cosines of the anchors to the proxies.
        temperature: T; smaller makes the loss sharper.

    Returns:
        `[B]`; 0 where there is only one class.
    """
    labels, similarities = check_similarities_input(labels, similarities)
    return own_against_others(labels, similarities, scale=1.0 / temperature)


@register("loss", "norm_softmax")
class NormSoftmax(SoftmaxProxyLoss):
    """Normalized softmax: cross-entropy of cosines to one proxy of each class, divided by a temperature.

    Example: `model.compile(loss=tfdml.losses.NormSoftmax(classes=100))`.
    """

    function = staticmethod(norm_softmax_loss)

    @property
    def exponent_scale(self):
        return 1.0 / self.temperature
