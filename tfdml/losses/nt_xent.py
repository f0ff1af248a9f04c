"""NT-Xent loss."""

from tfdml.functional.checks import check_pairs_input
from tfdml.functional.distances import unit_length
from tfdml.losses.embedding_loss import EmbeddingLoss
from tfdml.losses.n_pair import n_pair_loss
from tfdml.registry import register
from tfdml.registry.argument_checks import expects
from tfdml.registry.arguments import number


@expects(temperature=number(above=0))
def nt_xent_loss(labels, embeddings, queries=None, *, temperature=0.1):
    """NT-Xent loss of each anchor i: the mean over its positives p of `-log(e_ip / (e_ip + sum_n e_in))`.

    `e_ij = exp(s_ij / temperature)`, s being cosines and n the rows of other classes: the normalized
    temperature-scaled cross-entropy, equation (1) of Chen et al., A Simple Framework for Contrastive Learning of Visual
    Representations, 2020. The paper has one positive for each anchor, the other view of the same image. With several,
    each of them stands against the negatives alone, where `sup_con_loss` has the other positives in the sum as well.

    Args:
        labels: `[B]` class numbers; the number of the image where rows are views of images.
        embeddings: `[B, d]` of any length.
        queries: number of anchors, which are the first rows; None: every row is one.
        temperature: divides the cosines; lower makes the hardest pairs count more.

    Returns:
        `[B]`; 0 for an anchor without a positive or without a negative.
    """
    labels, embeddings = check_pairs_input(labels, embeddings)
    # Dot products of these are cosines divided by the temperature.
    return n_pair_loss(labels, unit_length(embeddings) / temperature**0.5, queries, negatives="all")


@register("loss", "nt_xent")
class NTXent(EmbeddingLoss):
    """NT-Xent, the loss of SimCLR: a softmax of cosines in which each positive wins over all negatives.

    Example: `model.compile(optimizer="adam", loss=tfdml.losses.NTXent(temperature=0.1))`.
    """

    function = staticmethod(nt_xent_loss)
