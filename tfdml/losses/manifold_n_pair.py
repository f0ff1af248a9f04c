"""Manifold N-pair loss."""

from keras import ops

from tfdml.functional.checks import check_pairs_input
from tfdml.functional.manifold import Affinity, Neighbors, Restart, walk_within_batch
from tfdml.functional.pairs import negative_pairs, positive_pairs
from tfdml.losses.embedding_loss import EmbeddingLoss
from tfdml.losses.n_pair import positives_against_negatives
from tfdml.registry import register
from tfdml.registry.arguments import NotNegative, Positive


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
