"""Average precision by ranks that are sums of sigmoids, in memory quadratic in the batch."""

from keras import ops


def smooth_ap_loss_and_slopes(scores, positives, negatives):
    """1 minus the smooth average precision of each row's ranking, and its derivative for each score.

    A row's positives are taken one after another, each against the whole row: a tensor of all pairs of each row would
    have `B^3` values, and so would what automatic differentiation keeps of this loop. Hence the derivative is here.

    Args:
        scores: `[B, N]`, higher is earlier; already divided by the temperature.
        positives, negatives: masks `[B, N]`; no place is in both.

    Returns:
        Values `[B]`, 0 where a row has no positive or no negative, and derivatives `[B, N]`.
    """
    place = ops.cumsum(ops.cast(positives, "int32"), axis=1)
    near, far = ops.cast(positives, scores.dtype), ops.cast(negatives, scores.dtype)

    def add(number, sums):
        values, slopes = sums
        own = ops.cast(ops.logical_and(positives, place == number + 1), scores.dtype)
        # The rank of each row's positive of this number: among positives, and how many negatives are before it.
        before = ops.sigmoid(scores - ops.sum(own * scores, axis=1, keepdims=True))
        rank = 1.0 + ops.sum((near - own) * before, axis=1)
        wrong = ops.sum(far * before, axis=1)
        total = rank + wrong
        has_one = ops.sum(own, axis=1)
        # What a place adds to wrong / total, by the slope of its sigmoid; the positive itself has all of it against it.
        slope = far * (rank / total**2)[:, None] - (near - own) * (wrong / total**2)[:, None]
        slope = has_one[:, None] * slope * before * (1.0 - before)
        return values + has_one * wrong / total, slopes + slope - own * ops.sum(slope, axis=1, keepdims=True)

    start = ops.zeros_like(scores[:, 0]), ops.zeros_like(scores)
    values, slopes = ops.fori_loop(0, ops.max(place), add, start)
    count = ops.maximum(ops.sum(near, axis=1), 1.0)
    return values / count, slopes / count[:, None]
