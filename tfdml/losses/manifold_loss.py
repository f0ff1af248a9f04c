"""Base of the two manifold losses."""

from dataclasses import KW_ONLY

from tfdml.functional.checks import check_similarities_input
from tfdml.functional.manifold import Affinity, Neighbors, Restart
from tfdml.functional.softmax import own_against_others
from tfdml.layers.proxies import ManifoldProxies
from tfdml.losses.image_proxy_loss import ImageProxyLoss
from tfdml.registry.arguments import NotNegative, Positive


class ManifoldLoss(ImageProxyLoss):
    """Base of proxy N-pair losses on similarities along the manifold, `[B, C]`, those of a `ManifoldProxies` layer.

    Args:
        margin: by how much the proxy of the anchor's class shall be more similar than the others.
        scale: see `ProxyNPair`; similarities along the manifold differ by far less than dot products.
        restart, affinity, neighbors: for `make_layer`, see `tfdml.functional.manifold.random_walk`.
        proxies, proxy_steps, proxy_rate, proxy_tolerance, classes: see `ImageProxyLoss`.
        reduction, name, dtype: see `EmbeddingLoss`.
    """

    margin: NotNegative = 5e-4
    scale: Positive = 1.0
    _: KW_ONLY
    restart: Restart = 0.8
    affinity: Affinity = "clipped"
    neighbors: Neighbors = None

    view = None

    def call(self, labels, similarities):
        labels, similarities = check_similarities_input(labels, similarities)
        return own_against_others(labels, similarities, scale=self.scale, own=lambda cosines: cosines - self.margin)

    def make_layer(self):
        walk = {"restart": self.restart, "affinity": self.affinity, "neighbors": self.neighbors}
        return ManifoldProxies(self.known_classes(), view=self.view, trainable=self.learns_proxies, **walk)
