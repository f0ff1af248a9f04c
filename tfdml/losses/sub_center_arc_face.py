"""Sub-center ArcFace loss."""

from keras import ops

from tfdml.functional.checks import check_similarities_input
from tfdml.losses.arc_face import ArcFace, arc_face_loss
from tfdml.registry import register
from tfdml.registry.argument_checks import expected_of, expects
from tfdml.registry.arguments import integer


@expects(**expected_of(arc_face_loss))
def sub_center_arc_face_loss(labels, similarities, *, scale=64.0, margin=0.5, monotonic=True):
    """Sub-center ArcFace loss of each anchor: ArcFace with the angle to the nearest of several centers of a class.

    `cos θ_j = max_k cos θ_jk` over the centers k of class j, and `arc_face_loss` of these: Deng et al., Sub-center
    ArcFace: Boosting Face Recognition by Large-scale Noisy Web Faces, 2020. An image that is labeled wrong, or unlike
    the rest of its class, can have a center of its own instead of moving the one of the class.

    Args:
        labels: `[B]` class numbers from 0 to C - 1.
        similarities: `[B, C, n]` cosines of the anchors to n centers of each class, or `[B, C]`.
        scale, margin, monotonic: see `arc_face_loss`.

    Returns:
        `[B]`; 0 where there is only one class.
    """
    similarities = ops.convert_to_tensor(similarities)
    labels, similarities = check_similarities_input(labels, similarities, several=len(similarities.shape) == 3)
    if len(similarities.shape) == 3:
        similarities = ops.max(similarities, axis=2)
    return arc_face_loss(labels, similarities, scale=scale, margin=margin, monotonic=monotonic)


@register("loss", "sub_center_arc_face", per_class=integer(1))
class SubCenterArcFace(ArcFace):
    """Sub-center ArcFace: ArcFace with several centers a class, of which the nearest counts, for noisy labels.

    Example: `model.compile(loss=tfdml.losses.SubCenterArcFace(classes=100))`.

    Args:
        per_class: centers of each class.
    """

    function = staticmethod(sub_center_arc_face_loss)
    per_class: int = 3
