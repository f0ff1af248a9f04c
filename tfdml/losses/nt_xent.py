"""NT-Xent loss."""

from keras import ops

from tfdml.functional.checks import check_pairs_input
from tfdml.functional.distances import dot_products, unit_length
from tfdml.functional.pairs import negative_pairs, positive_pairs
from tfdml.losses.embedding_loss import EmbeddingLoss
from tfdml.losses.n_pair import positives_against_negatives
from tfdml.registry import register
from tfdml.registry.arguments import Positive


@register("loss", "nt_xent")
class NTXent(EmbeddingLoss):
    """NT-Xent, the loss of SimCLR: a softmax of cosines in which each positive wins over all negatives.

    The loss of an anchor i is the mean over its positives p of `-log(e_ip / (e_ip + sum_n e_in))` with
    `e_ij = exp(s_ij / temperature)`, s being cosines and n the rows of other classes: the normalized
    temperature-scaled cross-entropy, equation (1) of Chen et al., A Simple Framework for Contrastive Learning of Visual
    Representations, 2020. The paper has one positive for each anchor, the other view of the same image. With several,
    each of them stands against the negatives alone, where `SupCon` has the other positives in the sum as well.

    Example: `model.compile(optimizer="adam", loss=tfdml.losses.NTXent(temperature=0.1))`.

    Args:
        temperature: divides the cosines; lower makes the hardest pairs count more.
        reduction, name, dtype: see `EmbeddingLoss`.

    Call arguments:
        labels: `[B]` class numbers; the number of the image where rows are views of images.
        embeddings: `[B, d]` of any length.
        queries: number of anchors, which are the first rows; None: every row is one.

    Returns:
        `[B]`; 0 for an anchor without a positive or without a negative.
    """

    temperature: Positive = 0.1

    def call(self, labels, embeddings, queries=None):
        labels, embeddings = check_pairs_input(labels, embeddings)
        near, far = positive_pairs(labels, queries), negative_pairs(labels, queries)
        # Dot products of these are cosines divided by the temperature.
        similarity = dot_products(unit_length(embeddings) / self.temperature**0.5, queries)
        values, weights = positives_against_negatives(near, far, similarity, 0.0)
        return ops.where(weights > 0.0, values, 0.0)
