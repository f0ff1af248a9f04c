"""CosFace and normalized softmax losses."""

from tfdml.functional.softmax import own_against_others
from tfdml.losses.proxy_base import SoftmaxProxyLoss
from tfdml.registry import register
from tfdml.registry.arguments import NotNegative, Positive


@register("loss", "cos_face")
class CosFace(SoftmaxProxyLoss):
    """Computes the CosFace loss: a softmax over classes that subtracts a margin from the cosine to the own class.

    The loss of an anchor is the cross-entropy of a softmax of `scale cos_j`, with `scale (cos_y - margin)` for its
    class y: `-log(exp(s (cos_y - m)) / (exp(s (cos_y - m)) + sum_j exp(s cos_j)))`, j over the other classes. It is
    from Wang et al., CosFace: Large Margin Cosine Loss for Deep Face Recognition, 2018.

    Use this loss as you would use `ArcFace`; it is gentler. Any batches will do, because the loss compares images with
    proxies and not with each other. The model that you train ends with the layer of proxies,
    `loss.make_layer()(embeddings)`; the models of `tfdml.methods` create it.

    Args:
        scale: Float. Factor s of all cosines. Larger values make the softmax sharper. Defaults to `64.0`.
        margin: Float. The margin m: the minimum difference between the cosine to an image's own class and the cosines
            to others. Defaults to `0.35`.
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
    tfdml.losses.CosFace(scale=16.0, classes=3)(np.array([0, 1]), similarities)  # 2.109
    ```
    """

    scale: Positive = 64.0
    margin: NotNegative = 0.35

    def call(self, labels, similarities):
        labels, similarities = self.check_taken(labels, similarities)
        return own_against_others(labels, similarities, scale=self.scale, own=lambda cosines: cosines - self.margin)


@register("loss", "norm_softmax")
class NormSoftmax(SoftmaxProxyLoss):
    """Computes the normalized softmax loss: cross-entropy of cosines to one proxy per class.

    The loss of an anchor is `-log(exp(s_y / T) / sum_j exp(s_j / T))`, where s are cosines to proxies and y is its
    class: Zhai and Wu, Classification is a Strong Baseline for Deep Metric Learning, 2019.

    This is the plain classification baseline. Any batches will do, because the loss compares images with proxies and
    not with each other. The model that you train ends with the layer of proxies, `loss.make_layer()(embeddings)`; the
    models of `tfdml.methods` create it.

    Args:
        temperature: Float. The temperature T, which divides the cosines. Smaller values make the softmax sharper.
            Defaults to `0.05`.
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
    tfdml.losses.NormSoftmax(temperature=0.1, classes=3)(np.array([0, 1]), similarities)  # 0.205
    ```
    """

    temperature: Positive = 0.05

    def call(self, labels, similarities):
        labels, similarities = self.check_taken(labels, similarities)
        return own_against_others(labels, similarities, scale=self.exponent_scale)

    @property
    def exponent_scale(self):
        return 1.0 / self.temperature
