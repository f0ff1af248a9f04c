"""Neighborhood components analysis, which is also the soft nearest neighbor loss."""

from dataclasses import KW_ONLY

from keras import ops

from tfdml.functional.checks import check_pairs_input
from tfdml.functional.pairs import log_sum_exp
from tfdml.losses.base import DistanceLoss
from tfdml.losses.miners import Mining
from tfdml.registry import register
from tfdml.registry.arguments import Positive, Text


@register("loss", "nca")
class NCA(DistanceLoss):
    """Computes the NCA loss: the probability that a neighbor drawn by distance belongs to the anchor's class.

    An anchor draws another row j as its neighbor with a probability in proportion to `exp(-scale d_ij)`. Its loss is
    `-log(sum_p exp(-scale d_ip) / (sum_p exp(-scale d_ip) + sum_n exp(-scale d_in)))`, with the squared distances d to
    its positives p and negatives n. It is from Goldberger et al., Neighbourhood Components Analysis, 2004. With `scale`
    as the inverse of the temperature, it is the soft nearest neighbor loss of Frosst et al., Analyzing and Improving
    Representations with the Soft Nearest Neighbor Loss, 2019. One near positive is enough for a low loss, so a class
    may consist of several clusters; `SupCon(form="in")` is the same on cosines, up to a constant.

    Use this loss for classes with several kinds of images. Use batches with several images of each of several classes,
    for example from `tfdml.data.pxk`. The loss does not normalize embeddings.

    Args:
        scale: Float. Factor of all distances. With larger values, only the nearest rows count. Defaults to `1.0`.
        distance: Name or spec of a distance; see `tfdml.losses.distances`. Defaults to `"squared_euclidean"`.
        mining, mean: see `AllPairsLoss`. Terms are anchors. Defaults to `"all"` and `"anchors"`.
        reduction, name, dtype: see `EmbeddingLoss`.

    Call arguments:
        labels: `[B]` integer class labels.
        embeddings: `[B, d]`.
        queries: Integer or `None`. Number of anchors, which are the first rows. If `None`, every row is an anchor.

    Returns:
        `[B]`, one loss per anchor. Anchors without a positive or without a negative have a loss of 0.

    Example:

    ```python
    labels = np.array([0, 0, 1, 1])
    embeddings = np.array([[1, 0], [0.8, 0.6], [0, 1], [0.6, 0.8]], "float32")
    tfdml.losses.NCA(scale=4.0)(labels, embeddings)  # 0.877
    ```
    """

    scale: Positive = 1.0
    _: KW_ONLY
    mining: Mining = "all"
    distance: Text = "squared_euclidean"

    def call(self, labels, embeddings, queries=None):
        labels, embeddings = check_pairs_input(labels, embeddings)
        distance = self.distances(embeddings, queries=queries)
        positives, negatives = self.selected(labels, embeddings, distance, queries)
        near, far = (log_sum_exp(pairs, -self.scale * distance) for pairs in (positives, negatives))
        has_both = ops.logical_and(ops.any(positives, axis=1), ops.any(negatives, axis=1))
        return self.of_anchors(ops.softplus(far - near), has_both)
