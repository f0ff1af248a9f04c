"""Intrinsic manifold loss."""

from tfdml.argument_checks import expected_of, expects
from tfdml.losses.manifold_loss import ManifoldLoss
from tfdml.losses.proxy_n_pair import proxy_n_pair_loss
from tfdml.registry import register


@expects(**expected_of(proxy_n_pair_loss))
def intrinsic_manifold_loss(labels, similarities, *, margin=5e-4):
    """Intrinsic manifold loss of each anchor: `log(1 + sum_j exp(f(x, p_j) - f(x, p_k) + margin))`.

    Equation (11) of EDMS: the proxy N-pair loss with similarities f along the manifold of batch and proxies. The mean
    over anchors is the equation's value.

    Args:
        labels: `[B]` class numbers from 0 to C - 1.
        similarities: `[B, C]` of the anchors to the proxies, of
            `tfdml.functional.manifold.manifold_similarities(embeddings, proxies, view="intrinsic")`.
        margin: by how much the own proxy shall be more similar than the others.

    Returns:
        `[B]`; 0 where there is only one class.
    """
    return proxy_n_pair_loss(labels, similarities, margin=margin)


@register("loss", "intrinsic_manifold")
class IntrinsicManifold(ManifoldLoss):
    """Intrinsic manifold loss: random walks over the batch from an image reach the proxy of its class most of all.

    Example: `model.compile(loss=tfdml.losses.IntrinsicManifold(classes=50))`.
    """

    function = staticmethod(intrinsic_manifold_loss)
    view = "intrinsic"
