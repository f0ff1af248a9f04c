"""Proxies with similarities along the manifold of the batch."""

from typing import Unpack

import keras
from keras import ops

from tfdml.functional.checks import at_least_float32
from tfdml.functional.manifold import Neighbors, Restart, manifold_similarities
from tfdml.layers.proxies import Proxies, ProxyArguments
from tfdml.registry.arguments import Affinity, Count, View


@keras.saving.register_keras_serializable(package="tfdml")
class ManifoldProxies(Proxies):
    """Computes similarities `[B, classes]` of embeddings to proxies along the manifold of the batch and the proxies.

    The similarities of a row depend on the whole batch. The layer solves a system with `B + classes` unknowns, so it is
    for few classes, in the paper 50 meta-classes.

    Example: `similarities = ManifoldProxies(classes=50)(embeddings)`.

    Args:
        classes: number of classes; labels are 0 to `classes - 1`.
        view, restart, affinity, neighbors: see `tfdml.functional.manifold.manifold_similarities`.
        **kwargs: see `Proxies`; each class has one proxy.
    """

    def __init__(
        self,
        classes: Count,
        view: View = "intrinsic",
        restart: Restart = 0.8,
        affinity: Affinity = "clipped",
        neighbors: Neighbors = None,
        **kwargs: Unpack[ProxyArguments],
    ):
        super().__init__(classes, **kwargs)
        if self.per_class != 1:
            raise ValueError(f"Expected one proxy per class, received per_class={self.per_class}.")
        self.view = view
        self.restart = restart
        self.affinity = affinity
        self.neighbors = neighbors

    def call(self, embeddings, labels=None):
        del labels
        embeddings = at_least_float32(embeddings)
        proxies = ops.cast(self.proxies, embeddings.dtype)
        return manifold_similarities(embeddings, proxies, **self._walk())

    def get_config(self):
        return {**super().get_config(), **self._walk()}

    def _walk(self):
        names = ("view", "restart", "affinity", "neighbors")
        return {name: getattr(self, name) for name in names}
