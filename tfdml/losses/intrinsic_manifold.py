"""Intrinsic manifold loss."""

from tfdml.losses.manifold_loss import ManifoldLoss
from tfdml.registry import register


@register("loss", "intrinsic_manifold")
class IntrinsicManifold(ManifoldLoss):
    """Intrinsic manifold loss: random walks over the batch from an image reach the proxy of its class most of all.

    The loss of an anchor is `log(1 + sum_j exp(scale (f_xj - f_xk + margin)))`: equation (11) of EDMS, which has
    no scale, the proxy N-pair loss with the similarity f_xj of anchor x and proxy p_j along the manifold of batch and
    proxies. The mean over anchors is the equation's value.

    Example: `model.compile(loss=tfdml.losses.IntrinsicManifold(classes=50))`.

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
            `tfdml.functional.manifold.manifold_similarities(embeddings, proxies, view="intrinsic")`.

    Returns:
        `[B]`; 0 where there is only one class.
    """

    view = "intrinsic"
