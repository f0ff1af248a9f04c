"""Proxy-NCA and proxy N-pair losses."""

from tfdml.functional.checks import check_similarities_input
from tfdml.functional.softmax import others_over_own, own_against_others
from tfdml.losses.proxy_base import ImageProxyLoss, SoftmaxProxyLoss
from tfdml.registry import register
from tfdml.registry.arguments import NotNegative, Positive


@register("loss", "proxy_nca")
class ProxyNCA(SoftmaxProxyLoss):
    """Computes the Proxy-NCA loss: each image should be nearer to the proxy of its class than to all other proxies.

    Every class has a proxy, a learned vector. The loss of an anchor is `log sum_z exp(-s d(x, p(z))) + s d(x, p(y))`, z
    over the other classes: equation (4) of Movshovitz-Attias et al., No Fuss Distance Metric Learning using Proxies,
    2017. Here d is the squared distance on the sphere, `2 - 2 cos`, and s is 1.

    Any batches will do, because the loss compares images with proxies and not with each other. The model that you train
    ends with the layer of proxies, `loss.make_layer()(embeddings)`; the models of `tfdml.methods` create it.

    Args:
        scale: Float. Factor s of all distances. Larger values make the loss sharper. Defaults to `1.0`.
        exclude_positive: Boolean. Whether to leave the anchor's own proxy out of the sum, as in the definition. If
            `False`, the loss is a softmax over all proxies (Teh et al., ProxyNCA++, 2020). Defaults to `True`.
        classes: Integer or `None`. Number of classes. The training command sets it. Defaults to `None`.
        sampled_classes, sampling, sharded: see `SoftmaxProxyLoss`.
        reduction, name, dtype: see `EmbeddingLoss`.

    Call arguments:
        labels: `[B]` integer class labels from 0 to C - 1.
        similarities: `[B, C]` cosines of the anchors to the proxies.

    Returns:
        `[B]`, one loss per anchor. It is negative if the proxy of the anchor's class is nearer than all others by more
        than their number makes up for.

    Example:

    ```python
    similarities = np.array([[0.7, 0.1, -0.2], [0.3, 0.5, 0.4]], "float32")
    tfdml.losses.ProxyNCA(classes=3)(np.array([0, 1]), similarities)  # -0.182
    ```
    """

    scale: Positive = 1.0
    exclude_positive: bool = True

    def call(self, labels, similarities):
        labels, similarities = self.check_taken(labels, similarities)
        # In differences of the distances 2 - 2 cos, only cosines remain. A single class has no class to compare with.
        if self.exclude_positive and similarities.shape[1] > 1:
            return others_over_own(labels, similarities, scale=self.exponent_scale)
        return own_against_others(labels, similarities, scale=self.exponent_scale)

    @property
    def exponent_scale(self):
        return 2.0 * self.scale


@register("loss", "proxy_n_pair")
class ProxyNPair(ImageProxyLoss):
    """Computes the proxy N-pair loss: the proxy of an image's class should be more similar than other proxies.

    The loss of an anchor is `log(1 + sum_j exp(scale (s_xj - s_xk + margin)))`, j over the other classes: equation (4)
    of EDMS, which has no scale. s_xj is the dot product of the anchor x and the proxy p_j at unit length, and k is the
    class of the anchor.

    Use this loss for few meta-classes. Any batches will do, because the loss compares images with proxies and not with
    each other. The model that you train ends with the layer of proxies, `loss.make_layer()(embeddings)`; the models of
    `tfdml.methods` create it.

    Args:
        margin: Float. Minimum difference between the similarity to the proxy of the anchor's class and the similarities
            to others. Defaults to `0.0005`.
        scale: Float. Factor of all similarities and of the margin. With 1, anchors that are far on the right side are
            pulled nearly as much as others, because similarities differ by so little. Defaults to `1.0`.
        classes: Integer or `None`. Number of classes. The training command sets it. Defaults to `None`.
        proxies: `"learned"` proxies, or features of `"images"`, or `"hard"` ones; see `ImageProxyLoss`. Defaults to
            `"learned"`.
        proxy_steps, proxy_rate, proxy_tolerance: for `proxies="hard"`, see `ImageProxyLoss`.
        reduction, name, dtype: see `EmbeddingLoss`.

    Call arguments:
        labels: `[B]` integer class labels from 0 to C - 1.
        similarities: `[B, C]` of the anchors to the proxies.

    Returns:
        `[B]`, one loss per anchor. If there is only one class, the loss is 0.

    Example:

    ```python
    similarities = np.array([[0.7, 0.1, -0.2], [0.3, 0.5, 0.4]], "float32")
    tfdml.losses.ProxyNPair(scale=16.0, classes=3)(np.array([0, 1]), similarities)  # 0.109
    ```
    """

    margin: NotNegative = 5e-4
    scale: Positive = 1.0

    def call(self, labels, similarities):
        labels, similarities = check_similarities_input(labels, similarities)
        return own_against_others(labels, similarities, scale=self.scale, own=lambda cosines: cosines - self.margin)
