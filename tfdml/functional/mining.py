"""For each anchor and positive, the negatives that matter, in memory quadratic in the batch."""

from keras import ops


def sorted_negatives(distances, negatives):
    """Distances `[B, B]` to negatives in ascending order, and how many there are `[B]`.

    Places past the number of negatives hold a value above every distance.
    """
    beyond = ops.max(distances) + 1.0
    return ops.sort(ops.where(negatives, distances, beyond), axis=1), ops.sum(ops.cast(negatives, "int32"), axis=1)


def count_at_most(sorted_values, thresholds):
    """For each row and threshold `[B, B]`, how many of the row's ascending values `[B, B]` are not above it."""
    # Binary searches: a row's values serve all thresholds of the row.
    return ops.vectorized_map(lambda row: ops.searchsorted(*row, side="right"), (sorted_values, thresholds))


def hardest_negative(distances, negatives):
    """Distance `[B]` to each anchor's nearest negative; meaningless where it has none."""
    beyond = ops.max(distances) + 1.0
    return ops.min(ops.where(negatives, distances, beyond), axis=1)


def hardest_positive(distances, positives):
    """Distance `[B]` to each anchor's farthest positive; 0 where it has none."""
    return ops.max(ops.where(positives, distances, 0.0), axis=1)


def semi_hard_negative(distances, negatives):
    """For each anchor and other row `[B, B]`, the distance to the nearest negative farther than that row.

    Where no negative is farther, it is the farthest negative: the least hard one that there is.
    """
    ascending, count = sorted_negatives(distances, negatives)
    farther = count_at_most(ascending, distances)
    last = ops.maximum(count - 1, 0)[:, None]
    return ops.take_along_axis(ascending, ops.minimum(farther, last), axis=1)


def nearest_beyond(distances, negatives, count, cutoff):
    """Mask `[B, B]` of each anchor's nearest negatives at a distance of `cutoff` or more, `count` `[B, 1]` of them."""
    far = ops.logical_and(negatives, distances >= cutoff)
    beyond = ops.max(distances) + 1.0
    # The place of each row in the order of distances.
    rank = ops.argsort(ops.argsort(ops.where(far, distances, beyond), axis=1), axis=1)
    return ops.logical_and(far, rank < ops.cast(count, rank.dtype))
