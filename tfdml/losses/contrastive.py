"""Contrastive loss."""

from keras import ops

from tfdml.functional.checks import check_pairs_input
from tfdml.functional.distances import distances
from tfdml.functional.pairs import negative_pairs, positive_pairs
from tfdml.losses.embedding_loss import EmbeddingLoss
from tfdml.registry import register


def contrastive_loss(labels, embeddings, *, margin=1.0):
    """Contrastive loss of each anchor: pulls its class together, pushes others to the margin.

    Equation (10) of Attention-based Ensemble, an anchor i's part of it:
    `sum_j y_ij D_ij^2 + (1 - y_ij) max(0, margin - D_ij)`, D being the Euclidean distance.

    Args:
        labels: `[B]` class numbers.
        embeddings: `[B, d]`.
        margin: distance from which another class is left alone.

    Returns:
        `[B]`; 0 for an anchor without any pair that costs something.
    """
    labels, embeddings = check_pairs_input(labels, embeddings)
    distance = distances(embeddings)
    pull = ops.where(positive_pairs(labels), ops.square(distance), 0.0)
    push = ops.where(negative_pairs(labels), ops.maximum(margin - distance, 0.0), 0.0)
    return ops.sum(pull + push, axis=1)


@register("loss", "contrastive")
class Contrastive(EmbeddingLoss):
    """Contrastive loss: squared distances of a class, linear hinge between classes.

    Example: `model.compile(optimizer="adam", loss=tfdml.losses.Contrastive(margin=1.0))`.

    Args:
        margin: see `contrastive_loss`.
    """

    def __init__(self, margin=1.0, **kwargs):
        super().__init__(**kwargs)
        self.margin = margin

    def call(self, labels, embeddings):
        return contrastive_loss(labels, embeddings, margin=self.margin)

    def get_config(self):
        return {**super().get_config(), "margin": self.margin}
