"""ArcFace and sub-center ArcFace losses."""

import math
from dataclasses import KW_ONLY
from typing import Annotated

from keras import ops

from tfdml.functional.softmax import own_against_others
from tfdml.losses.proxy_base import SoftmaxProxyLoss
from tfdml.registry import register
from tfdml.registry.arguments import Count, Positive, Tensor, number


@register("loss", "arc_face")
class ArcFace(SoftmaxProxyLoss):
    """ArcFace: cross-entropy of scaled cosines to class proxies, with a wider angle to an image's own class.

    The loss of an anchor is a softmax of `scale cos θ_j` with `scale cos(θ_y + margin)` for its class y,
    `-log(exp(s cos(θ_y + m)) / (exp(s cos(θ_y + m)) + sum_j exp(s cos θ_j)))`, j over the other classes: equation (3)
    of Deng et al., ArcFace: Additive Angular Margin Loss for Deep Face Recognition, 2019.

    Example: `model.compile(loss=tfdml.losses.ArcFace(classes=100))`.

    Args:
        scale: factor s of all cosines.
        margin: m in radians, by how much the angle to its class shall be smaller than those to others.
        monotonic: whether `cos θ_y - m sin m` takes the place of `cos(θ_y + m)` where `θ_y + m` is more than a half
            turn, as the authors' code has it. Without it the equation holds there, too: it rises again, and anchors
            are pushed to the far side of their proxy.
        classes: number of classes; the training command fills it in.
        sampled_classes: classes whose proxies a step sees; None: all.
        sampling, sharded: see `SoftmaxProxyLoss`.
        reduction, name, dtype: see `EmbeddingLoss`.

    Call arguments:
        labels: `[B]` class numbers from 0 to C - 1.
        similarities: `[B, C]` cosines of the anchors to the proxies.

    Returns:
        `[B]`; 0 where there is only one class.
    """

    scale: Positive = 64.0
    margin: Annotated[float, number(at_least=0, below=math.pi, noun="angle in radians")] = 0.5
    monotonic: bool = True

    def call(self, labels, similarities):
        return self.of_cosines(*self.check_taken(labels, similarities))

    def of_cosines(self, labels: Tensor, cosines: Tensor) -> Tensor:
        """The values `[B]` of cosines `[B, C]` to classes."""
        return own_against_others(labels, cosines, scale=self.scale, own=self._widened)

    def _widened(self, cosine):
        """The cosine of the angle that is larger by the margin."""
        # Rounding makes it more than 1.
        cosine = ops.clip(cosine, -1.0, 1.0)
        squared_sine = (1.0 - cosine) * (1.0 + cosine)
        # Where the sine is 0, its gradient is infinite. Written so that NaN stays NaN.
        between = ops.logical_not(squared_sine <= 0.0)
        sine = ops.where(between, ops.sqrt(ops.where(between, squared_sine, 1.0)), 0.0)
        widened = cosine * math.cos(self.margin) - sine * math.sin(self.margin)
        if not self.monotonic:
            return widened
        return ops.where(cosine < -math.cos(self.margin), cosine - self.margin * math.sin(self.margin), widened)


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
