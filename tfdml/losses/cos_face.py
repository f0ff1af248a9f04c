"""CosFace loss."""

from tfdml.functional.checks import check_similarities_input
from tfdml.functional.class_softmax import own_against_others
from tfdml.losses.softmax_proxy_loss import SoftmaxProxyLoss
from tfdml.registry import register
from tfdml.registry.argument_checks import expects
from tfdml.registry.arguments import number


@expects(scale=number(above=0), margin=number(at_least=0))
def cos_face_loss(labels, similarities, *, scale=64.0, margin=0.35):
    """CosFace loss of each anchor: a softmax of `scale cos_j` with `scale (cos_y - margin)` for its class y.

    `-log(exp(s (cos_y - m)) / (exp(s (cos_y - m)) + sum_j exp(s cos_j)))`, j over the other classes: Wang et al.,
    CosFace: Large Margin Cosine Loss for Deep Face Recognition, 2018.

    Args:
        labels: `[B]` class numbers from 0 to C - 1.
        similarities: `[B, C]` cosines of the anchors to the proxies.
        scale: factor s of all cosines.
        margin: m, by how much the cosine to its class shall be higher than those to others.

    Returns:
        `[B]`; 0 where there is only one class.
    """
    labels, similarities = check_similarities_input(labels, similarities)
    return own_against_others(labels, similarities, scale=scale, own=lambda cosines: cosines - margin)


@register("loss", "cos_face")
class CosFace(SoftmaxProxyLoss):
    """CosFace: cross-entropy of scaled cosines to class proxies, with a margin less for an image's own class.

    Example: `model.compile(loss=tfdml.losses.CosFace(classes=100))`.
    """

    function = staticmethod(cos_face_loss)
