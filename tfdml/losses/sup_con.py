"""Supervised contrastive loss."""

from typing import Literal

from keras import ops

from tfdml.functional.checks import check_pairs_input
from tfdml.functional.distances import cosines
from tfdml.functional.pairs import log_sum_exp, negative_pairs, positive_pairs
from tfdml.losses.base import EmbeddingLoss
from tfdml.registry import register
from tfdml.registry.arguments import Positive


@register("loss", "sup_con")
class SupCon(EmbeddingLoss):
    """Supervised contrastive loss: a softmax over the batch that all positives of an image share.

    From Khosla et al., Supervised Contrastive Learning, 2020, with cosines s and temperature t; p are the anchor i's
    positives, a all other rows:

    - `out`, equation (2): the mean over p of `-log(exp(s_ip / t) / sum_a exp(s_ia / t))`.
    - `in`, equation (3): `-log` of the mean over p of `exp(s_ip / t) / sum_a exp(s_ia / t)`.

    The paper sums over anchors, where the mean is taken here.

    Example: `model.compile(optimizer="adam", loss=tfdml.losses.SupCon(temperature=0.1))`.

    Args:
        temperature: divides the cosines; lower makes the hardest pairs count more.
        form: whether the positives' sum is out of the logarithm or in it.
        reduction, name, dtype: see `EmbeddingLoss`.

    Call arguments:
        labels: `[B]` class numbers.
        embeddings: `[B, d]` of any length.
        queries: number of anchors, which are the first rows; None: every row is one.

    Returns:
        `[B]`; 0 for an anchor without a positive.
    """

    temperature: Positive = 0.1
    form: Literal["out", "in"] = "out"

    takes_queries = True

    def call(self, labels, embeddings, queries=None):
        labels, embeddings = check_pairs_input(labels, embeddings)
        positives = positive_pairs(labels, queries)
        logits = cosines(embeddings, queries) / self.temperature
        count = ops.maximum(ops.sum(ops.cast(positives, logits.dtype), axis=1), 1.0)
        if self.form == "out":
            attraction = ops.sum(ops.where(positives, logits, 0.0), axis=1) / count
        else:
            attraction = log_sum_exp(positives, logits) - ops.log(count)
        values = log_sum_exp(ops.logical_or(positives, negative_pairs(labels, queries)), logits) - attraction
        return ops.where(ops.any(positives, axis=1), values, 0.0)
