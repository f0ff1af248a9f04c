"""Histograms whose counts have gradients."""

from keras import ops

from tfdml.registry.arguments import Tensor


def pair_histograms(
    values: Tensor, positives: Tensor, negatives: Tensor, low: float, high: float, bins: int
) -> tuple[Tensor, Tensor]:
    """Computes soft histograms of each row's values, one of its positives and one of its negatives.

    The nodes are at equal steps from `low` to `high`. A value counts for the two nodes around it, in proportion to its
    nearness, and for 1 in total.

    Args:
        values: `[B, N]`; values beyond `low` or `high` count for the last node there.
        positives, negatives: masks `[B, N]` without common elements.
        low, high: first and last node.
        bins: number of steps between them.

    Returns:
        Two tensors `[B, bins + 1]`.
    """
    position = ops.clip((values - low) * (bins / (high - low)), 0.0, float(bins))
    # Clipped again because of NaN, which must remain in the weight but must not be an index.
    lower = ops.clip(ops.cast(ops.stop_gradient(position), "int32"), 0, bins - 1)
    upper_share = position - ops.cast(lower, position.dtype)
    counted = ops.logical_or(positives, negatives)
    rows, nodes = ops.shape(values)[0], bins + 1
    # Index of the histogram, two for each row; sums by index need no memory for every value and node.
    histogram = 2 * ops.arange(rows, dtype="int32")[:, None] + ops.cast(negatives, "int32")
    index = nodes * histogram + lower

    def summed(shares, index):
        shares = ops.where(counted, shares, 0.0)
        return ops.segment_sum(ops.reshape(shares, (-1,)), ops.reshape(index, (-1,)), num_segments=2 * rows * nodes)

    sums = summed(1.0 - upper_share, index) + summed(upper_share, index + 1)
    sums = ops.reshape(sums, (rows, 2, nodes))
    return sums[:, 0], sums[:, 1]
