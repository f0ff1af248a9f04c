"""Contextual manifold loss."""

from tfdml.losses.manifold_loss import ManifoldLoss
from tfdml.registry import register


@register("loss", "contextual_manifold")
class ContextualManifold(ManifoldLoss):
    """Contextual manifold loss: an image's similarities to all proxies shall be like those of the proxy of its class.

    The loss of an anchor is `log(1 + sum_j exp(scale (f_x . f_pj - f_x . f_pk + margin)))`: equation (12) of EDMS,
    the proxy N-pair loss with dot products of what an image and a proxy see of all proxies along the manifold. The mean
    over anchors is the equation's value.

    Example: `model.compile(loss=tfdml.losses.ContextualManifold(classes=50))`.

    Args:
        margin: by how much the proxy of the anchor's class shall be more similar than the others.
        scale: factor of all similarities, which differ by far less than dot products along the manifold.
        classes: number of classes; the training command fills it in.
        restart, affinity, neighbors: of the walk, see `tfdml.functional.manifold.random_walk`.
        proxies: `learnt`, or features of `images`, or `hard` ones, see `ImageProxyLoss`.
        proxy_steps, proxy_rate, proxy_tolerance: of `hard`, see `ImageProxyLoss`.
        reduction, name, dtype: see `EmbeddingLoss`.

    Call arguments:
        labels: `[B]` class numbers from 0 to C - 1.
        similarities: `[B, C]` of the anchors to the proxies, of
            `tfdml.functional.manifold.manifold_similarities(embeddings, proxies, view="contextual")`.

    Returns:
        `[B]`; 0 where there is only one class.
    """

    view = "contextual"
