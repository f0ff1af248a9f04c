"""Differentiable histograms, smooth ranks, divergence, and pair statistics for logs."""

from collections.abc import Callable

from keras import ops

from tfdml.functional.checks import at_least_float32
from tfdml.functional.pairs import over_positives
from tfdml.registry.arguments import Tensor


def pair_histograms(
    values: Tensor, positives: Tensor, negatives: Tensor, low: float, high: float, bins: int
) -> tuple[Tensor, Tensor]:
    """Computes two soft histograms of each row's values: one of its positives and one of its negatives.

    The nodes are spaced evenly from `low` to `high`. Each value is shared between the two nodes around it, in
    proportion to how near they are.

    Args:
        values: `[B, N]`. Values below `low` count as `low`, values above `high` as `high`.
        positives, negatives: masks `[B, N]` without common elements.
        low, high: first and last node.
        bins: number of steps between them.

    Returns:
        Two tensors `[B, bins + 1]`.
    """
    position = ops.clip((values - low) * (bins / (high - low)), 0.0, float(bins))
    # The index is clipped again because it must be valid even if a value is NaN. The weight must remain NaN.
    lower = ops.clip(ops.cast(ops.stop_gradient(position), "int32"), 0, bins - 1)
    upper_share = position - ops.cast(lower, position.dtype)
    counted = ops.logical_or(positives, negatives)
    rows, nodes = ops.shape(values)[0], bins + 1
    # Each row has two histograms. Sums by index need no memory for each value and node.
    histogram = 2 * ops.arange(rows, dtype="int32")[:, None] + ops.cast(negatives, "int32")
    index = nodes * histogram + lower

    def summed(shares, index):
        shares = ops.where(counted, shares, 0.0)
        return ops.segment_sum(ops.reshape(shares, (-1,)), ops.reshape(index, (-1,)), num_segments=2 * rows * nodes)

    sums = summed(1.0 - upper_share, index) + summed(upper_share, index + 1)
    sums = ops.reshape(sums, (rows, 2, nodes))
    return sums[:, 0], sums[:, 1]


def mined_pairs(distance: Tensor, positives: Tensor, negatives: Tensor | None = None) -> dict[str, Tensor]:
    """Describes the pairs of a batch that a loss learns from.

    Args:
        distance: distances `[B, B]`.
        positives: mask `[B, B]` of the positive pairs that the loss learns from.
        negatives: mask `[B, B]` of the negative pairs that the loss learns from. If None, they are not described.

    Returns:
        Dictionary of scalars: `active_anchors`, the fraction of anchors with such a pair; `mined_positives` and
        `mined_negatives`, the mean number of such pairs per anchor; `mined_positive_distance` and
        `mined_negative_distance`, their mean distances, or NaN without any.
    """
    mined = positives if negatives is None else ops.logical_or(positives, negatives)
    found = {"active_anchors": ops.mean(ops.cast(ops.any(mined, axis=1), distance.dtype))}
    for name, pairs in (("positive", positives), ("negative", negatives)):
        if pairs is not None:
            found[f"mined_{name}s"] = ops.mean(ops.sum(ops.cast(pairs, distance.dtype), axis=1))
            found[f"mined_{name}_distance"] = mean_of(pairs, distance)
    return found


def mean_of(mask: Tensor, values: Tensor) -> Tensor:
    """Returns the mean of the values `[B, B]` inside the mask, or NaN if there are none."""
    count = ops.sum(ops.cast(mask, values.dtype))
    total = ops.sum(ops.where(mask, values, 0.0))
    return ops.where(count > 0.0, total / ops.maximum(count, 1.0), float("nan"))


def divergence_loss(learners: Tensor, *, margin: float = 1.0) -> Tensor:
    """Computes each image's divergence loss `sum_{p != q} max(0, margin - |x_p - x_q|^2)` over its learners p and q.

    This is one image's part of equation (9) of Attention-based Ensemble. As in its sum over p and q, each pair of
    learners counts twice, once in each order. The paper sums over images. The mean over images divides this sum by
    their number, as equation (10) does with its own sum.

    Args:
        learners: `[B, K, d]` embeddings of the same images by K learners.
        margin: squared distance from which the loss of two learners is 0.

    Returns:
        `[B]`. For a single learner, the loss is 0.
    """
    learners = check_learners(learners)
    squared_norms = ops.sum(ops.square(learners), axis=2)
    products = ops.matmul(learners, ops.transpose(learners, (0, 2, 1)))
    squared = squared_norms[:, :, None] + squared_norms[:, None, :] - 2.0 * products
    different = 1.0 - ops.eye(ops.shape(learners)[1], dtype=learners.dtype)
    return ops.sum(ops.maximum(margin - ops.maximum(squared, 0.0), 0.0) * different, axis=(1, 2))


def check_learners(learners: Tensor) -> Tensor:
    """Converts learners `[B, K, d]` to a tensor of float32 or float64."""
    learners = ops.convert_to_tensor(learners)
    if len(learners.shape) != 3:
        raise ValueError(
            f"Expected embeddings of shape [batch, learners, dim]. Received: shape={tuple(learners.shape)}."
        )
    return at_least_float32(learners)


def ranking_loss_and_slopes(
    scores: Tensor,
    positives: Tensor,
    negatives: Tensor,
    cost: Callable[[Tensor, Tensor], tuple[Tensor, Tensor, Tensor]],
) -> tuple[Tensor, Tensor]:
    """Computes the mean cost of the smooth ranks of each row's positives, and its derivative by each score.

    It compares a row's positives with the whole row one after another. A tensor of all pairs of each row would have
    `B^3` values. The derivative is explicit because automatic differentiation would store as many values.

    Args:
        scores: `[B, N]`, divided by the temperature. Higher scores rank first.
        positives, negatives: masks `[B, N]` without common elements.
        cost: function of the rank `[B]` of a positive among the positives, from 1, and of the number `[B]` of negatives
            before it. It returns the cost `[B]` and its derivatives by both.

    Returns:
        Values `[B]`, 0 if a row has no positive, and derivatives `[B, N]`.
    """
    near, far = ops.cast(positives, scores.dtype), ops.cast(negatives, scores.dtype)

    def add(own, sums):
        values, slopes = sums
        before = ops.sigmoid(scores - ops.sum(own * scores, axis=1, keepdims=True))
        value, by_rank, by_wrong = cost(1.0 + ops.sum((near - own) * before, axis=1), ops.sum(far * before, axis=1))
        has_one = ops.sum(own, axis=1)
        # Each element changes the cost by the slope of its sigmoid, and the positive by minus the sum of these.
        slope = far * by_wrong[:, None] + (near - own) * by_rank[:, None]
        slope = has_one[:, None] * slope * before * (1.0 - before)
        return values + has_one * value, slopes + slope - own * ops.sum(slope, axis=1, keepdims=True)

    values, slopes = over_positives(positives, add, (ops.zeros_like(scores[:, 0]), ops.zeros_like(scores)))
    count = ops.maximum(ops.sum(near, axis=1), 1.0)
    return values / count, slopes / count[:, None]


def with_slopes(scores: Tensor, values: Tensor, slopes: Tensor) -> Tensor:
    """Returns the values `[B]` with the gradient `slopes` by scores, both `[B, N]`."""
    # The added term is 0 and has the slopes as its gradient.
    change = scores - ops.stop_gradient(scores)
    return ops.stop_gradient(values) + ops.sum(ops.stop_gradient(slopes) * change, axis=1)
