"""Mining of negatives for each anchor and positive, in memory quadratic in the batch."""

from keras import ops

from tfdml.registry.arguments import Tensor


def sorted_negatives(distances: Tensor, negatives: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the distances `[B, B]` to negatives in ascending order, and their number `[B]`.

    Elements beyond that number have a value above every distance.
    """
    beyond = ops.max(distances) + 1.0
    return ops.sort(ops.where(negatives, distances, beyond), axis=1), ops.sum(ops.cast(negatives, "int32"), axis=1)


def count_at_most(sorted_values: Tensor, thresholds: Tensor) -> Tensor:
    """Counts, for each row and threshold `[B, B]`, the row's ascending values `[B, B]` that are not above it."""
    # Binary search in a row's values, for all thresholds of the row.
    return ops.vectorized_map(lambda row: ops.searchsorted(*row, side="right"), (sorted_values, thresholds))


def hardest_negative(distances: Tensor, negatives: Tensor) -> Tensor:
    """Returns the distance `[B]` to each anchor's nearest negative; arbitrary if it has none."""
    beyond = ops.max(distances) + 1.0
    return ops.min(ops.where(negatives, distances, beyond), axis=1)


def hardest_positive(distances: Tensor, positives: Tensor) -> Tensor:
    """Returns the distance `[B]` to each anchor's farthest positive; 0 if it has none."""
    return ops.max(ops.where(positives, distances, 0.0), axis=1)


def semi_hard_negative(distances: Tensor, negatives: Tensor) -> Tensor:
    """Returns, for each anchor and other row `[B, B]`, the distance to the nearest negative farther than that row.

    If no negative is farther, it is the distance to the farthest negative.
    """
    ascending, count = sorted_negatives(distances, negatives)
    farther = count_at_most(ascending, distances)
    last = ops.maximum(count - 1, 0)[:, None]
    return ops.take_along_axis(ascending, ops.minimum(farther, last), axis=1)


def nearest_beyond(distances: Tensor, negatives: Tensor, count: Tensor, cutoff: float) -> Tensor:
    """Returns the mask `[B, B]` of each anchor's `count` `[B, 1]` nearest negatives at least `cutoff` away."""
    far = ops.logical_and(negatives, distances >= cutoff)
    beyond = ops.max(distances) + 1.0
    # The rank of each row by distance.
    rank = ops.argsort(ops.argsort(ops.where(far, distances, beyond), axis=1), axis=1)
    return ops.logical_and(far, rank < ops.cast(count, rank.dtype))
