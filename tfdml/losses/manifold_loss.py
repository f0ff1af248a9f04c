"""What both manifold losses share."""

from tfdml.functional.manifold import WALK
from tfdml.layers.manifold_proxies import ManifoldProxies
from tfdml.losses.proxy_loss import CLASSES
from tfdml.losses.proxy_n_pair import EXPECTED as PROXY_N_PAIR
from tfdml.losses.proxy_n_pair import ProxyNPair

EXPECTED = {**PROXY_N_PAIR, **WALK, "classes": CLASSES}


class ManifoldLoss(ProxyNPair):
    """Base of proxy N-pair losses on similarities along the manifold, `[B, C]`, those of a `ManifoldProxies` layer.

    Args:
        margin: see `proxy_n_pair_loss`.
        restart, affinity: for `make_layer`, see `tfdml.functional.manifold.random_walk`.
        classes: see `ProxyLoss`.
    """

    view = None

    def __init__(self, margin=5e-4, restart=0.8, affinity="clipped", classes=None, **kwargs):
        super().__init__(margin=margin, classes=classes, **kwargs)
        self.restart = restart
        self.affinity = affinity

    def make_layer(self):
        return ManifoldProxies(self.known_classes(), view=self.view, restart=self.restart, affinity=self.affinity)

    def get_config(self):
        return {**super().get_config(), "restart": self.restart, "affinity": self.affinity}
