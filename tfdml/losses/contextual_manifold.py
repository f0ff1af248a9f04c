"""Contextual manifold loss."""

from tfdml.losses.manifold_loss import ManifoldLoss
from tfdml.losses.proxy_n_pair import proxy_n_pair_loss
from tfdml.registry import register
from tfdml.registry.argument_checks import expected_of, expects


@expects(**expected_of(proxy_n_pair_loss))
def contextual_manifold_loss(labels, similarities, *, margin=5e-4, scale=1.0):
    """Contextual manifold loss of each anchor: `log(1 + sum_j exp(scale (f_x . f_pj - f_x . f_pk + margin)))`.

    Equation (12) of EDMS: the proxy N-pair loss with dot products of what an image and a proxy see of all proxies
    along the manifold. The mean over anchors is the equation's value.

    Args:
        labels: `[B]` class numbers from 0 to C - 1.
        similarities: `[B, C]` of the anchors to the proxies, of
            `tfdml.functional.manifold.manifold_similarities(embeddings, proxies, view="contextual")`.
        margin: by how much the proxy of the anchor's class shall be more similar than the others.
        scale: see `proxy_n_pair_loss`; similarities along the manifold differ by far less than dot products.

    Returns:
        `[B]`; 0 where there is only one class.
    """
    return proxy_n_pair_loss(labels, similarities, margin=margin, scale=scale)


@register("loss", "contextual_manifold")
class ContextualManifold(ManifoldLoss):
    """Contextual manifold loss: an image's similarities to all proxies shall be like those of the proxy of its class.

    Example: `model.compile(loss=tfdml.losses.ContextualManifold(classes=50))`.
    """

    function = staticmethod(contextual_manifold_loss)
    view = "contextual"
