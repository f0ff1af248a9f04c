"""ArcFace loss."""

import math

from keras import ops

from tfdml.functional.checks import check_similarities_input
from tfdml.functional.class_softmax import own_against_others
from tfdml.losses.softmax_proxy_loss import SoftmaxProxyLoss
from tfdml.registry import register
from tfdml.registry.argument_checks import expects
from tfdml.registry.arguments import number


@expects(scale=number(above=0), margin=number(at_least=0, below=math.pi, noun="angle in radians"))
def arc_face_loss(labels, similarities, *, scale=64.0, margin=0.5, monotonic=True):
    """ArcFace loss of each anchor: a softmax of `scale cos θ_j` with `scale cos(θ_y + margin)` for its class y.

    `-log(exp(s cos(θ_y + m)) / (exp(s cos(θ_y + m)) + sum_j exp(s cos θ_j)))`, j over the other classes: equation (3)
    of Deng et al., ArcFace: Additive Angular Margin Loss for Deep Face Recognition, 2019.

    Args:
        labels: `[B]` class numbers from 0 to C - 1.
        similarities: `[B, C]` cosines of the anchors to the proxies.
        scale: factor s of all cosines.
        margin: m in radians, by how much the angle to its class shall be smaller than those to others.
        monotonic: whether `cos θ_y - m sin m` takes the place of `cos(θ_y + m)` where `θ_y + m` is more than a half
            turn, as the authors' code has it. Without it the equation holds there, too: it rises again, and anchors
            are pushed to the far side of their proxy.

    Returns:
        `[B]`; 0 where there is only one class.
    """
    labels, similarities = check_similarities_input(labels, similarities)
    return own_against_others(
        labels, similarities, scale=scale, own=lambda cosines: _widened(cosines, margin, monotonic)
    )


def _widened(cosine, margin, monotonic):
    """The cosine of the angle that is larger by the margin."""
    # Rounding makes it more than 1.
    cosine = ops.clip(cosine, -1.0, 1.0)
    squared_sine = (1.0 - cosine) * (1.0 + cosine)
    # Where the sine is 0, its gradient is infinite. Written so that NaN stays NaN.
    between = ops.logical_not(squared_sine <= 0.0)
    sine = ops.where(between, ops.sqrt(ops.where(between, squared_sine, 1.0)), 0.0)
    widened = cosine * math.cos(margin) - sine * math.sin(margin)
    if not monotonic:
        return widened
    return ops.where(cosine < -math.cos(margin), cosine - margin * math.sin(margin), widened)


@register("loss", "arc_face")
class ArcFace(SoftmaxProxyLoss):
    """ArcFace: cross-entropy of scaled cosines to class proxies, with a wider angle to an image's own class.

    Example: `model.compile(loss=tfdml.losses.ArcFace(classes=100))`.
    """

    function = staticmethod(arc_face_loss)
