"""Supervised contrastive loss."""

from typing import Literal

from keras import ops

from tfdml.functional.checks import check_pairs_input
from tfdml.functional.distances import cosines
from tfdml.functional.pairs import log_sum_exp
from tfdml.losses.base import AllPairsLoss
from tfdml.registry import register
from tfdml.registry.arguments import Positive


@register("loss", "sup_con")
class SupCon(AllPairsLoss):
    """Computes the supervised contrastive loss: a softmax over the batch that all positives of an image share.

    Each anchor should be more similar to its positives than to all other rows of the batch. The loss is from Khosla et
    al., Supervised Contrastive Learning, 2020, with cosines s and temperature t; p are the positives of anchor i, and a
    are all other rows:

    - `out`, equation (2): the mean over p of `-log(exp(s_ip / t) / sum_a exp(s_ia / t))`.
    - `in`, equation (3): `-log` of the mean over p of `exp(s_ip / t) / sum_a exp(s_ia / t)`.

    The paper sums over anchors; the default reduction averages. Use this loss for long training and with large batches.
    Use batches with several images of each of several classes, for example from `tfdml.data.pxk`.

    Args:
        temperature: Float. Divides the cosines. With lower values, the hardest pairs count more. Defaults to `0.1`.
        form: `"out"` to sum over positives outside the logarithm, or `"in"` to sum inside it. Defaults to `"out"`.
        mining, mean: see `AllPairsLoss`. Terms are anchors. Defaults to `"all"` and `"anchors"`.
        reduction, name, dtype: see `EmbeddingLoss`.

    Call arguments:
        labels: `[B]` integer class labels.
        embeddings: `[B, d]` of any length.
        queries: Integer or `None`. Number of anchors, which are the first rows. If `None`, every row is an anchor.

    Returns:
        `[B]`, one loss per anchor. Anchors without a positive have a loss of 0.

    Example:

    ```python
    labels = np.array([0, 0, 1, 1])
    embeddings = np.array([[1, 0], [0.8, 0.6], [0, 1], [0.6, 0.8]], "float32")
    tfdml.losses.SupCon(temperature=0.1)(labels, embeddings)  # 0.967
    ```
    """

    temperature: Positive = 0.1
    form: Literal["out", "in"] = "out"

    def call(self, labels, embeddings, queries=None):
        labels, embeddings = check_pairs_input(labels, embeddings)
        similarity = cosines(embeddings, queries)
        positives, negatives = self.selected(labels, embeddings, 1.0 - similarity, queries)
        logits = similarity / self.temperature
        count = ops.maximum(ops.sum(ops.cast(positives, logits.dtype), axis=1), 1.0)
        if self.form == "out":
            attraction = ops.sum(ops.where(positives, logits, 0.0), axis=1) / count
        else:
            attraction = log_sum_exp(positives, logits) - ops.log(count)
        values = log_sum_exp(ops.logical_or(positives, negatives), logits) - attraction
        return self.of_anchors(values, ops.any(positives, axis=1))
