"""The manifold losses of EDMS: contextual, intrinsic, and N-pair."""

from dataclasses import KW_ONLY

from keras import ops

from tfdml.functional.checks import check_pairs_input, check_similarities_input
from tfdml.functional.manifold import Affinity, Neighbors, Restart, walk_within_batch
from tfdml.functional.pairs import negative_pairs, positive_pairs
from tfdml.functional.softmax import own_against_others
from tfdml.layers.proxies import ManifoldProxies
from tfdml.losses.base import EmbeddingLoss
from tfdml.losses.n_pair import positives_against_negatives
from tfdml.losses.proxy_base import ImageProxyLoss
from tfdml.registry import register
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


@register("loss", "intrinsic_manifold")
class IntrinsicManifold(ManifoldLoss):
    """Intrinsic manifold loss: random walks over the batch from an image reach the proxy of its class most of all.

    The loss of an anchor is `log(1 + sum_j exp(scale (f_xj - f_xk + margin)))`: equation (11) of EDMS, which has
    no scale, the proxy N-pair loss with the similarity f_xj of anchor x and proxy p_j along the manifold of batch and
    proxies. The mean over anchors is the equation's value.

    Example: `model.compile(loss=tfdml.losses.IntrinsicManifold(classes=50))`.

    Args:
        margin, scale, classes, restart, affinity, neighbors: see `ContextualManifold`.
        proxies, proxy_steps, proxy_rate, proxy_tolerance: see `ImageProxyLoss`.
        reduction, name, dtype: see `EmbeddingLoss`.

    Call arguments:
        labels: `[B]` class numbers from 0 to C - 1.
        similarities: `[B, C]` of the anchors to the proxies, of
            `tfdml.functional.manifold.manifold_similarities(embeddings, proxies, view="intrinsic")`.

    Returns:
        `[B]`; 0 where there is only one class.
    """

    view = "intrinsic"


@register("loss", "manifold_n_pair")
class ManifoldNPair(EmbeddingLoss):
    """Manifold N-pair loss: random walks over the batch reach a positive more than the images of other classes.

    The loss of an anchor is `log(1 + sum_n exp(scale (f_an - f_ap + margin)))`, the mean over p. EDMS (RW) of the
    paper's Table 2: the N-pair loss, equation (3) of EDMS, with the similarities f of equation (9) along the manifold
    of the batch, without proxies. p is each other row of the anchor's class, n every row of another class, as in
    `NPair` with `negatives="all"`.

    Example: `model.compile(optimizer="adam", loss=tfdml.losses.ManifoldNPair())`.

    Args:
        margin: by how much a positive shall be more similar than negatives are.
        scale: factor of all similarities, which differ by far less than dot products, and of the margin.
        restart, affinity, neighbors: see `tfdml.functional.manifold.random_walk`.
        reduction, name, dtype: see `EmbeddingLoss`.

    Call arguments:
        labels: `[B]` class numbers.
        embeddings: `[B, d]` of any length.

    Returns:
        `[B]`; 0 for an anchor without a positive or without a negative.
    """

    margin: NotNegative = 5e-4
    scale: Positive = 1.0
    restart: Restart = 0.8
    affinity: Affinity = "clipped"
    neighbors: Neighbors = None

    def call(self, labels, embeddings):
        labels, embeddings = check_pairs_input(labels, embeddings)
        walk = {"restart": self.restart, "affinity": self.affinity, "neighbors": self.neighbors}
        similarity = self.scale * walk_within_batch(embeddings, **walk)
        near, far = positive_pairs(labels), negative_pairs(labels)
        values, weights = positives_against_negatives(near, far, similarity, self.scale * self.margin)
        return ops.where(weights > 0.0, values, 0.0)
