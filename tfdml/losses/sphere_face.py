"""SphereFace, large-margin softmax and P2SGrad losses."""

import math

from keras import ops

from tfdml.functional.checks import check_similarities_input
from tfdml.functional.pairs import class_mask, nan_outside
from tfdml.functional.softmax import own_against_others
from tfdml.layers.proxies import ProxiesWithLengths
from tfdml.losses.proxy_base import ProxyLoss
from tfdml.registry import register
from tfdml.registry.arguments import Count, Positive


@register("loss", "large_margin_softmax")
class LargeMarginSoftmax(ProxyLoss):
    """Computes the large-margin softmax loss, which multiplies the angle to an image's own class by an integer.

    The loss of an anchor x is the cross-entropy of a softmax of `scale |x| |w_j| cos θ_j`, with
    `scale |x| |w_y| ((-1)^k cos(margin θ_y) - 2 k)` for its class y, where w are the proxies and k is the integer part
    of `margin θ_y / π`. It is equation (6) of Liu et al., Large-Margin Softmax Loss for Convolutional Neural Networks,
    2016.

    Use this loss to compare with the paper; `ArcFace` is its successor. Any batches will do, because the loss compares
    images with proxies and not with each other. The model that you train ends with the layer of proxies,
    `loss.make_layer()(embeddings)`; the models of `tfdml.methods` create it. Lengths of embeddings and proxies count,
    so do not normalize embeddings, or set `scale` to about 16.

    Args:
        margin: Integer. Factor of the angle. With 1, the loss is a plain softmax. Defaults to `4`.
        scale: Float. Factor of all similarities. Defaults to `1.0`.
        classes: Integer or `None`. Number of classes. The training command sets it. Defaults to `None`.
        reduction, name, dtype: see `EmbeddingLoss`.

    Call arguments:
        labels: `[B]` integer class labels from 0 to C - 1.
        similarities: `[B, C, 2]`, dot products of the anchors and the proxies, and the products of their lengths.

    Returns:
        `[B]`, one loss per anchor. If there is only one class, the loss is 0.

    Example:

    ```python
    similarities = np.array([[[1.4, 2.0], [0.1, 1.0]], [[0.3, 1.0], [1.5, 3.0]]], "float32")
    tfdml.losses.LargeMarginSoftmax(margin=2, classes=2)(np.array([0, 1]), similarities)  # 1.359
    ```
    """

    margin: Count = 4
    scale: Positive = 1.0

    # A dot product and a length for each class.
    per_class = 2
    proxies_have_lengths = True

    def call(self, labels, similarities):
        labels, similarities = check_similarities_input(labels, similarities, several=True)
        products, lengths = ops.unstack(similarities, 2, axis=2)
        places = ops.clip(ops.cast(labels, "int32"), 0, ops.shape(products)[1] - 1)[:, None]
        length = ops.take_along_axis(lengths, places, axis=1)[:, 0]

        def own(product):
            return self._multiplied(ops.divide_no_nan(product, length)) * length

        return own_against_others(labels, products, scale=self.scale, own=own)

    def _multiplied(self, cosine):
        """Returns `(-1)^k cos(margin θ) - 2 k`, which falls from 1 to `1 - 2 margin` as θ grows from 0 to π."""
        angle = ops.arccos(ops.clip(ops.stop_gradient(cosine), -1.0, 1.0))
        k = ops.floor(self.margin * angle / math.pi)
        # The Chebyshev polynomials: cos((n + 1) θ) = 2 cos θ cos(n θ) - cos((n - 1) θ).
        before, multiple = ops.ones_like(cosine), cosine
        for _ in range(self.margin - 1):
            before, multiple = multiple, 2.0 * cosine * multiple - before
        return (1.0 - 2.0 * (k % 2.0)) * multiple - 2.0 * k

    def make_layer(self):
        return ProxiesWithLengths(self.known_classes(), of_proxies=self.proxies_have_lengths)


@register("loss", "sphere_face")
class SphereFace(LargeMarginSoftmax):
    """Computes the SphereFace loss: the large-margin softmax loss with proxies of unit length.

    It is `LargeMarginSoftmax` with `|w_j| = 1`: the A-Softmax loss, equation (7) of Liu et al., SphereFace: Deep
    Hypersphere Embedding for Face Recognition, 2017.

    Use this loss to compare with the paper; `ArcFace` is its successor. Any batches will do, because the loss compares
    images with proxies and not with each other. The model that you train ends with the layer of proxies,
    `loss.make_layer()(embeddings)`; the models of `tfdml.methods` create it.

    Args:
        margin, scale: see `LargeMarginSoftmax`.
        classes: Integer or `None`. Number of classes. The training command sets it. Defaults to `None`.
        reduction, name, dtype: see `EmbeddingLoss`.

    Call arguments:
        labels: `[B]` integer class labels from 0 to C - 1.
        similarities: `[B, C, 2]`, dot products of the anchors and the proxies, and the lengths `|x|`.

    Returns:
        `[B]`, one loss per anchor. If there is only one class, the loss is 0.

    Example:

    ```python
    similarities = np.array([[[1.4, 2.0], [0.2, 2.0]], [[0.9, 3.0], [1.5, 3.0]]], "float32")
    tfdml.losses.SphereFace(margin=2, classes=2)(np.array([0, 1]), similarities)  # 1.654
    ```
    """

    proxies_have_lengths = False


@register("loss", "p2s_grad")
class P2SGrad(ProxyLoss):
    """Computes the P2SGrad loss: squared errors of cosines to class proxies, which should be 1 or 0.

    The loss of an anchor is the mean over classes of `(cos θ_j - t_j)^2`, where t is 1 for its own class and 0 for
    others. It has the gradients of Zhang et al., P2SGrad: Refined Gradients for Optimizing Deep Face Models, 2019, and
    no scale or margin to tune.

    Use this loss as you would use `CosFace`. Any batches will do, because the loss compares images with proxies and not
    with each other. The model that you train ends with the layer of proxies, `loss.make_layer()(embeddings)`; the
    models of `tfdml.methods` create it.

    Args:
        classes: Integer or `None`. Number of classes. The training command sets it. Defaults to `None`.
        reduction, name, dtype: see `EmbeddingLoss`.

    Call arguments:
        labels: `[B]` integer class labels from 0 to C - 1.
        similarities: `[B, C]` cosines of the anchors to the proxies.

    Returns:
        `[B]`, one loss per anchor.

    Example:

    ```python
    similarities = np.array([[0.7, 0.1, -0.2], [0.3, 0.5, 0.4]], "float32")
    tfdml.losses.P2SGrad(classes=3)(np.array([0, 1]), similarities)  # 0.107
    ```
    """

    def call(self, labels, similarities):
        labels, similarities = check_similarities_input(labels, similarities)
        targets = ops.cast(class_mask(labels, similarities.shape[1]), similarities.dtype)
        values = ops.mean(ops.square(similarities - targets), axis=1)
        return nan_outside(labels, similarities.shape[1], values)
