"""Intrinsic manifold loss."""

from tfdml.losses.manifold_loss import ManifoldLoss
from tfdml.losses.proxy_n_pair import proxy_n_pair_loss
from tfdml.registry import register
from tfdml.registry.argument_checks import expected_of, expects


@expects(**expected_of(proxy_n_pair_loss))
def intrinsic_manifold_loss(labels, similarities, *, margin=5e-4, scale=1.0):
    """Intrinsic manifold loss of each anchor: `log(1 + sum_j exp(scale (f_xj - f_xk + margin)))`.

    Equation (11) of EDMS, which has no scale: the proxy N-pair loss with the similarity f_xj of anchor x and proxy p_j
    along the manifold of batch and proxies. The mean over anchors is the equation's value.

    Args:
        labels: `[B]` class numbers from 0 to C - 1.
        similarities: `[B, C]` of the anchors to the proxies, of
            `tfdml.functional.manifold.manifold_similarities(embeddings, proxies, view="intrinsic")`.
        margin: by how much the proxy of the anchor's class shall be more similar than the others.
        scale: see `proxy_n_pair_loss`; similarities along the manifold differ by far less than dot products.

    Returns:
        `[B]`; 0 where there is only one class.
    """
    return proxy_n_pair_loss(labels, similarities, margin=margin, scale=scale)


@register("loss", "intrinsic_manifold")
class IntrinsicManifold(ManifoldLoss):
    """Intrinsic manifold loss: random walks over the batch from an image reach the proxy of its class most of all.

    Example: `model.compile(loss=tfdml.losses.IntrinsicManifold(classes=50))`.
    """

    function = staticmethod(intrinsic_manifold_loss)
    view = "intrinsic"
