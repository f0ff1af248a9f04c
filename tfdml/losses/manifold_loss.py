"""Base of the two manifold losses."""

from tfdml.functional.manifold import WALK
from tfdml.layers.manifold_proxies import ManifoldProxies
from tfdml.losses.image_proxy_loss import ImageProxyLoss
from tfdml.registry.argument_checks import expects


@expects(**WALK)
class ManifoldLoss(ImageProxyLoss):
    """Base of proxy N-pair losses on similarities along the manifold, `[B, C]`, those of a `ManifoldProxies` layer.

    Args:
        restart, affinity, neighbors: for `make_layer`, see `tfdml.functional.manifold.random_walk`.
    """

    restart: float = 0.8
    affinity: str = "clipped"
    neighbors: int | None = None

    view = None

    def make_layer(self):
        walk = {"restart": self.restart, "affinity": self.affinity, "neighbors": self.neighbors}
        return ManifoldProxies(self.known_classes(), view=self.view, trainable=self.learns_proxies, **walk)
