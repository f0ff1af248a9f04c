"""Sub-center ArcFace loss."""

from dataclasses import KW_ONLY

from keras import ops

from tfdml.losses.arc_face import ArcFace
from tfdml.registry import register
from tfdml.registry.arguments import Count


@register("loss", "sub_center_arc_face")
class SubCenterArcFace(ArcFace):
    """Sub-center ArcFace: ArcFace with several centers a class, of which the nearest counts, for noisy labels.

    `cos θ_j = max_k cos θ_jk` over the centers k of class j, and `ArcFace` of these: Deng et al., Sub-center ArcFace:
    Boosting Face Recognition by Large-scale Noisy Web Faces, 2020. An image that is labeled wrong, or unlike the rest
    of its class, can have a center of its own instead of moving the one of the class.

    Example: `model.compile(loss=tfdml.losses.SubCenterArcFace(classes=100))`.

    Args:
        scale, margin, monotonic: see `ArcFace`.
        per_class: centers of each class.
        classes: number of classes; the training command fills it in.
        sampled_classes: classes whose proxies a step sees; None: all.
        sampling, sharded: see `SoftmaxProxyLoss`.
        reduction, name, dtype: see `EmbeddingLoss`.

    Call arguments:
        labels: `[B]` class numbers from 0 to C - 1.
        similarities: `[B, C, n]` cosines of the anchors to n centers of each class, or `[B, C]`.

    Returns:
        `[B]`; 0 where there is only one class.
    """

    _: KW_ONLY
    per_class: Count = 3

    def call(self, labels, similarities):
        labels, cosines = self.check_taken(labels, ops.convert_to_tensor(similarities), several=True)
        return self.of_cosines(labels, ops.max(cosines, axis=2) if len(cosines.shape) == 3 else cosines)
