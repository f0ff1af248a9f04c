"""Losses on hyperbolic distances."""

from tfdml.functional.checks import check_pairs_input
from tfdml.functional.hyperbolic import poincare_distances
from tfdml.losses.base import AllPairsLoss
from tfdml.losses.n_pair import positives_against_negatives
from tfdml.registry import register
from tfdml.registry.arguments import Positive


@register("loss", "hyperbolic_nt_xent")
class HyperbolicNTXent(AllPairsLoss):
    """Computes the NT-Xent loss of hyperbolic distances, in a ball that has room for class hierarchies.

    The loss of an anchor i is the mean over its positives p of `-log(e_ip / (e_ip + sum_n e_in))` with
    `e_ij = exp(-D_ij / temperature)`, where D are distances in the Poincaré ball, see
    `tfdml.functional.hyperbolic.poincare_distances`. It is from Ermolov et al., Hyperbolic Vision Transformers:
    Combining Improvements in Metric Learning, 2022. The authors' code compares each positive with fewer negatives. Kim
    et al., HIER: Metric Learning Beyond Class Labels via Hierarchical Regularization, 2023, use the same ball; this
    loss does not have their regularizer.

    Use it with embeddings that are not L2-normalized, `single(normalize=False)`. Their length can then show how
    specific an image is. Embeddings that are at least as long as `clip` have the same ranks by cosine as by hyperbolic
    distance, and so do L2-normalized embeddings.

    Args:
        temperature: Float. Divides the distances. With lower values, the hardest pairs count more. Defaults to `0.2`.
        curvature: Float. The number c: the ball has the radius `1 / sqrt(c)`. With smaller values, distances are nearer
            to Euclidean distances. Defaults to `0.1`.
        clip: Float. Maximum length of embeddings; longer ones are shortened. Defaults to `2.3`.
        mining, mean: see `AllPairsLoss`. Terms are positive pairs. Defaults to `"all"` and `"anchors"`.
        reduction, name, dtype: see `EmbeddingLoss`.

    Call arguments:
        labels: `[B]` integer class labels.
        embeddings: `[B, d]` of any length.
        queries: Integer or `None`. Number of anchors, which are the first rows. If `None`, every row is an anchor.

    Returns:
        `[B]`, one loss per anchor. Anchors without a positive or without a negative have a loss of 0.

    Example:

    ```python
    labels = np.array([0, 0, 1, 1])
    embeddings = np.array([[1, 0], [0.8, 0.6], [0, 1], [0.6, 0.8]], "float32")
    tfdml.losses.HyperbolicNTXent()(labels, embeddings)  # 1.89
    ```
    """

    temperature: Positive = 0.2
    curvature: Positive = 0.1
    clip: Positive = 2.3

    def call(self, labels, embeddings, queries=None):
        labels, embeddings = check_pairs_input(labels, embeddings)
        distances = poincare_distances(embeddings, queries, curvature=self.curvature, clip=self.clip)
        near, far = self.selected(labels, embeddings, distances, queries)
        return self.of_pairs(*positives_against_negatives(near, far, -distances / self.temperature, 0.0))
