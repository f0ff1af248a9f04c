"""ArcFace and sub-center ArcFace losses."""

import math
from dataclasses import KW_ONLY
from typing import Annotated

from keras import ops

from tfdml.functional.distances import turned
from tfdml.functional.softmax import own_against_others
from tfdml.losses.proxy_base import SoftmaxProxyLoss
from tfdml.registry import register
from tfdml.registry.arguments import Count, Positive, Tensor, number


@register("loss", "arc_face")
class ArcFace(SoftmaxProxyLoss):
    """Computes the ArcFace loss: a softmax over classes that adds a margin to the angle to an image's own class.

    The loss of an anchor is the cross-entropy of a softmax of `scale cos θ_j`, with `scale cos(θ_y + margin)` for its
    class y: `-log(exp(s cos(θ_y + m)) / (exp(s cos(θ_y + m)) + sum_j exp(s cos θ_j)))`, j over the other classes. It is
    equation (3) of Deng et al., ArcFace: Additive Angular Margin Loss for Deep Face Recognition, 2019. θ_j is the angle
    between the anchor and the proxy of class j.

    Use this loss if there are very many classes. Any batches will do, because the loss compares images with proxies and
    not with each other. The model that you train ends with the layer of proxies, `loss.make_layer()(embeddings)`; the
    models of `tfdml.methods` create it.

    Args:
        scale: Float. Factor s of all cosines. Larger values make the softmax sharper. Defaults to `64.0`.
        margin: Float. The margin m in radians, from 0 to below π: the minimum difference between the angle to an
            image's own class and the angles to others. Defaults to `0.5`.
        monotonic: Boolean. Whether `cos θ_y - m sin m` replaces `cos(θ_y + m)` if `θ_y + m` is more than half a turn,
            as in the authors' code. If `False`, the equation also holds there: it rises again, and anchors are pushed
            to the far side of their proxy. Defaults to `True`.
        classes: Integer or `None`. Number of classes. The training command sets it. Defaults to `None`.
        sampled_classes, sampling, sharded: see `SoftmaxProxyLoss`.
        reduction, name, dtype: see `EmbeddingLoss`.

    Call arguments:
        labels: `[B]` integer class labels from 0 to C - 1.
        similarities: `[B, C]` cosines of the anchors to the proxies.

    Returns:
        `[B]`, one loss per anchor. If there is only one class, the loss is 0.

    Example:

    ```python
    similarities = np.array([[0.7, 0.1, -0.2], [0.3, 0.5, 0.4]], "float32")
    tfdml.losses.ArcFace(scale=16.0, classes=3)(np.array([0, 1]), similarities)  # 3.135
    ```
    """

    scale: Positive = 64.0
    margin: Annotated[float, number(at_least=0, below=math.pi, noun="angle in radians")] = 0.5
    monotonic: bool = True

    def call(self, labels, similarities):
        return self.of_cosines(*self.check_taken(labels, similarities))

    def of_cosines(self, labels: Tensor, cosines: Tensor) -> Tensor:
        """Computes the losses `[B]` from cosines `[B, C]` to classes."""
        return own_against_others(labels, cosines, scale=self.scale, own=self._widened)

    def _widened(self, cosine):
        """Returns the cosine of the angle plus the margin."""
        widened = turned(cosine, self.margin)
        if not self.monotonic:
            return widened
        return ops.where(cosine < -math.cos(self.margin), cosine - self.margin * math.sin(self.margin), widened)


@register("loss", "sub_center_arc_face")
class SubCenterArcFace(ArcFace):
    """Computes the sub-center ArcFace loss, which has several centers per class and is robust to label noise.

    It is `ArcFace` of `cos θ_j = max_k cos θ_jk` over the centers k of class j: Deng et al., Sub-center ArcFace:
    Boosting Face Recognition by Large-scale Noisy Web Faces, 2020. An image with a wrong label, or one that is unlike
    the rest of its class, can have its own center instead of moving the center of the class.

    Use this loss if labels are noisy. Any batches will do, because the loss compares images with proxies and not with
    each other. The model that you train ends with the layer of proxies, `loss.make_layer()(embeddings)`; the models of
    `tfdml.methods` create it.

    Args:
        scale, margin, monotonic: see `ArcFace`.
        per_class: Integer. Number of centers per class. Defaults to `3`.
        classes: Integer or `None`. Number of classes. The training command sets it. Defaults to `None`.
        sampled_classes, sampling, sharded: see `SoftmaxProxyLoss`.
        reduction, name, dtype: see `EmbeddingLoss`.

    Call arguments:
        labels: `[B]` integer class labels from 0 to C - 1.
        similarities: `[B, C, n]` cosines of the anchors to n centers of each class, or `[B, C]`.

    Returns:
        `[B]`, one loss per anchor. If there is only one class, the loss is 0.

    Example:

    ```python
    similarities = np.array([[[0.7, 0.1], [0.2, -0.2]], [[0.3, 0.1], [0.4, 0.5]]], "float32")
    tfdml.losses.SubCenterArcFace(scale=16.0, per_class=2, classes=2)(np.array([0, 1]), similarities)  # 2.355
    ```
    """

    _: KW_ONLY
    per_class: Count = 3

    def call(self, labels, similarities):
        labels, cosines = self.check_taken(labels, ops.convert_to_tensor(similarities), several=True)
        return self.of_cosines(labels, ops.max(cosines, axis=2) if len(cosines.shape) == 3 else cosines)
