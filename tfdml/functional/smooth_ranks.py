"""Average precision from ranks that are sums of sigmoids, in memory quadratic in the batch."""

from keras import ops

from tfdml.registry.arguments import Tensor


def smooth_ap_loss_and_slopes(scores: Tensor, positives: Tensor, negatives: Tensor) -> tuple[Tensor, Tensor]:
    """Computes 1 minus the smooth average precision of each row's ranking, and its derivative by each score.

    It processes a row's positives one after another, each against the whole row. A tensor of all pairs of each row
    would have `B^3` values, and so would the intermediate results of automatic differentiation, so the derivative is
    explicit.

    Args:
        scores: `[B, N]`, higher is earlier; already divided by the temperature.
        positives, negatives: masks `[B, N]` without common elements.

    Returns:
        Values `[B]`, 0 if a row has no positive or no negative, and derivatives `[B, N]`.
    """
    place = ops.cumsum(ops.cast(positives, "int32"), axis=1)
    near, far = ops.cast(positives, scores.dtype), ops.cast(negatives, scores.dtype)

    def add(number, sums):
        values, slopes = sums
        own = ops.cast(ops.logical_and(positives, place == number + 1), scores.dtype)
        # The rank of each row's positive of this index among positives, and the number of negatives before it.
        before = ops.sigmoid(scores - ops.sum(own * scores, axis=1, keepdims=True))
        rank = 1.0 + ops.sum((near - own) * before, axis=1)
        wrong = ops.sum(far * before, axis=1)
        total = rank + wrong
        has_one = ops.sum(own, axis=1)
        # Each element changes wrong / total by the slope of its sigmoid, the positive by minus their sum.
        slope = far * (rank / total**2)[:, None] - (near - own) * (wrong / total**2)[:, None]
        slope = has_one[:, None] * slope * before * (1.0 - before)
        return values + has_one * wrong / total, slopes + slope - own * ops.sum(slope, axis=1, keepdims=True)

    start = ops.zeros_like(scores[:, 0]), ops.zeros_like(scores)
    values, slopes = ops.fori_loop(0, ops.max(place), add, start)
    count = ops.maximum(ops.sum(near, axis=1), 1.0)
    return values / count, slopes / count[:, None]
