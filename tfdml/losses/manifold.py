"""The manifold losses of EDMS: contextual, intrinsic and N-pair."""

from dataclasses import KW_ONLY

from tfdml.functional.checks import check_pairs_input, check_similarities_input
from tfdml.functional.manifold import Affinity, Neighbors, Restart, walk_within_batch
from tfdml.functional.softmax import own_against_others
from tfdml.layers.proxies import ManifoldProxies
from tfdml.losses.base import AllPairsLoss
from tfdml.losses.n_pair import positives_against_negatives
from tfdml.losses.proxy_base import ImageProxyLoss
from tfdml.registry import register
from tfdml.registry.arguments import NotNegative, Positive


class ManifoldLoss(ImageProxyLoss):
    """Base class of proxy N-pair losses on similarities along the manifold, from a `ManifoldProxies` layer.

    Args:
        margin, scale, restart, affinity, neighbors: see `ContextualManifold`.
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
    """Computes the contextual manifold loss: an image should see all proxies as the proxy of its class sees them.

    The loss of an anchor is `log(1 + sum_j exp(scale (f_x . f_pj - f_x . f_pk + margin)))`: equation (12) of EDMS. It
    is the proxy N-pair loss with dot products of what an image and a proxy see of all proxies along the manifold, that
    is, of their similarities to all proxies. The mean over anchors is the equation's value.

    Use this loss with up to a few hundred proxies. Batches need no positive pairs, but walks lead over the images of
    the batch. The model that you train ends with the layer of proxies, `loss.make_layer()(embeddings)`; the models of
    `tfdml.methods` create it.

    Args:
        margin: Float. Minimum difference between the similarity to the proxy of the anchor's class and the similarities
            to others. Defaults to `0.0005`.
        scale: Float. Factor of all similarities and of the margin. Similarities along the manifold differ by far less
            than dot products. Defaults to `1.0`.
        classes: Integer or `None`. Number of classes. The training command sets it. Defaults to `None`.
        restart: Float above 0 and below 1. See `tfdml.functional.manifold.random_walk`. Walks reach farther with a
            larger value. Defaults to `0.8`.
        affinity: `"clipped"` or `"shifted"`, see `tfdml.functional.manifold.random_walk`. Defaults to `"clipped"`.
        neighbors: Integer or `None`. Number of nodes that each node of the graph is connected with. If `None`, all.
            Defaults to `None`.
        proxies: `"learned"` proxies, or features of `"images"`, or `"hard"` ones; see `ImageProxyLoss`. Defaults to
            `"learned"`.
        proxy_steps, proxy_rate, proxy_tolerance: for `proxies="hard"`, see `ImageProxyLoss`.
        reduction, name, dtype: see `EmbeddingLoss`.

    Call arguments:
        labels: `[B]` integer class labels from 0 to C - 1.
        similarities: `[B, C]` of the anchors to the proxies, from
            `tfdml.functional.manifold.manifold_similarities(embeddings, proxies, view="contextual")`.

    Returns:
        `[B]`, one loss per anchor. If there is only one class, the loss is 0.

    Example:

    ```python
    embeddings, proxies = np.array([[1, 0], [0.6, 0.8]], "float32"), np.array([[0.8, 0.6], [0, 1]], "float32")
    similarities = tfdml.functional.manifold.manifold_similarities(embeddings, proxies, view="contextual")
    tfdml.losses.ContextualManifold(scale=16.0, classes=2)(np.array([0, 1]), similarities)  # 0.678
    ```
    """

    view = "contextual"


@register("loss", "intrinsic_manifold")
class IntrinsicManifold(ManifoldLoss):
    """Computes the intrinsic manifold loss: random walks from an image should reach the proxy of its class most.

    The loss of an anchor is `log(1 + sum_j exp(scale (f_xj - f_xk + margin)))`: equation (11) of EDMS, which has no
    scale. It is the proxy N-pair loss with the similarity f_xj of anchor x and proxy p_j along the manifold of batch
    and proxies. The mean over anchors is the equation's value.

    Use this loss with up to a few hundred proxies. Batches need no positive pairs, but walks lead over the images of
    the batch. The model that you train ends with the layer of proxies, `loss.make_layer()(embeddings)`; the models of
    `tfdml.methods` create it.

    Args:
        margin, scale, classes, restart, affinity, neighbors: see `ContextualManifold`.
        proxies, proxy_steps, proxy_rate, proxy_tolerance: see `ImageProxyLoss`.
        reduction, name, dtype: see `EmbeddingLoss`.

    Call arguments:
        labels: `[B]` integer class labels from 0 to C - 1.
        similarities: `[B, C]` of the anchors to the proxies, from
            `tfdml.functional.manifold.manifold_similarities(embeddings, proxies, view="intrinsic")`.

    Returns:
        `[B]`, one loss per anchor. If there is only one class, the loss is 0.

    Example:

    ```python
    embeddings, proxies = np.array([[1, 0], [0.6, 0.8]], "float32"), np.array([[0.8, 0.6], [0, 1]], "float32")
    similarities = tfdml.functional.manifold.manifold_similarities(embeddings, proxies, view="intrinsic")
    tfdml.losses.IntrinsicManifold(scale=16.0, classes=2)(np.array([0, 1]), similarities)  # 0.603
    ```
    """

    view = "intrinsic"


@register("loss", "manifold_n_pair")
class ManifoldNPair(AllPairsLoss):
    """Computes the manifold N-pair loss: random walks over the batch should reach positives more than negatives.

    The loss of an anchor is the mean over p of `log(1 + sum_n exp(scale (f_an - f_ap + margin)))`. It is EDMS (RW) of
    the paper's Table 2: the N-pair loss, equation (3) of EDMS, with the similarities f of equation (9) along the
    manifold of the batch, without proxies. p is each other row of the anchor's class and n every row of another class,
    as in `NPair` with `negatives="all"`.

    Use this loss to compare with the paper. Use batches with several images of each of several classes, for example
    from `tfdml.data.pxk`.

    Args:
        margin: Float. Minimum difference between the similarities of positives and negatives. Defaults to `0.0005`.
        scale, restart, affinity, neighbors: see `ContextualManifold`.
        mining, mean: see `AllPairsLoss`. Terms are positive pairs, and distances are `-scale f`. Defaults to `"all"`
            and `"anchors"`.
        reduction, name, dtype: see `EmbeddingLoss`.

    Call arguments:
        labels: `[B]` integer class labels.
        embeddings: `[B, d]` of any length.

    Returns:
        `[B]`, one loss per anchor. Anchors without a positive or without a negative have a loss of 0.

    Example:

    ```python
    labels = np.array([0, 0, 1, 1])
    embeddings = np.array([[1, 0], [0.8, 0.6], [0, 1], [0.6, 0.8]], "float32")
    tfdml.losses.ManifoldNPair(scale=16.0)(labels, embeddings)  # 0.997
    ```
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
        near, far = self.selected(labels, embeddings, -similarity)
        return self.of_pairs(*positives_against_negatives(near, far, similarity, self.scale * self.margin))
