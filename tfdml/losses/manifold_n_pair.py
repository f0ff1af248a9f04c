"""Manifold N-pair loss."""

from keras import ops

from tfdml.functional.checks import check_pairs_input
from tfdml.functional.manifold import WALK, walk_within_batch
from tfdml.functional.pairs import negative_pairs, positive_pairs
from tfdml.losses.embedding_loss import EmbeddingLoss
from tfdml.losses.n_pair import positives_against_negatives
from tfdml.registry import register
from tfdml.registry.argument_checks import expects
from tfdml.registry.arguments import number


@expects(margin=number(at_least=0), scale=number(above=0), **WALK)
def manifold_n_pair_loss(
    labels, embeddings, *, margin=5e-4, scale=1.0, restart=0.8, affinity="clipped", neighbors=None
):
    """Manifold N-pair loss of each anchor: `log(1 + sum_n exp(scale (f_an - f_ap + margin)))`, the mean over p.

    EDMS (RW) of the paper's Table 2: the N-pair loss, equation (3) of EDMS, with the similarities f of equation (9)
    along the manifold of the batch, without proxies. p is each other row of the anchor's class, n every row of another
    class, as in `n_pair_loss` with `negatives="all"`.

    Args:
        labels: `[B]` class numbers.
        embeddings: `[B, d]` of any length.
        margin: by how much a positive shall be more similar than negatives are.
        scale: factor of all similarities, which differ by far less than dot products, and of the margin.
        restart, affinity, neighbors: see `tfdml.functional.manifold.random_walk`.

    Returns:
        `[B]`; 0 for an anchor without a positive or without a negative.
    """
    labels, embeddings = check_pairs_input(labels, embeddings)
    similarity = walk_within_batch(embeddings, restart=restart, affinity=affinity, neighbors=neighbors)
    near, far = positive_pairs(labels), negative_pairs(labels)
    values, weights = positives_against_negatives(near, far, scale * similarity, scale * margin)
    return ops.where(weights > 0.0, values, 0.0)


@register("loss", "manifold_n_pair")
class ManifoldNPair(EmbeddingLoss):
    """Manifold N-pair loss: random walks over the batch reach a positive more than the images of other classes.

    Example: `model.compile(optimizer="adam", loss=tfdml.losses.ManifoldNPair())`.
    """

    function = staticmethod(manifold_n_pair_loss)
