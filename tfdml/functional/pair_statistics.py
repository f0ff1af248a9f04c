"""Statistics of the pairs that a loss mines in a batch, for logs."""

from keras import ops

from tfdml.registry.arguments import Tensor


def mined_pairs(distance: Tensor, positives: Tensor, negatives: Tensor | None = None) -> dict[str, Tensor]:
    """Describes the pairs of a batch that a loss learns from.

    Args:
        distance: distances `[B, B]`.
        positives: mask `[B, B]` of the positive pairs that the loss learns from.
        negatives: mask `[B, B]` of the negative pairs; None: nothing is said about them.

    Returns:
        Dictionary of scalars: `active_anchors`, the fraction of anchors with such a pair; `mined_positives` and
        `mined_negatives`, how many an anchor has on average; `mined_positive_distance` and `mined_negative_distance`,
        their mean distances, NaN if there are none.
    """
    mined = positives if negatives is None else ops.logical_or(positives, negatives)
    found = {"active_anchors": ops.mean(ops.cast(ops.any(mined, axis=1), distance.dtype))}
    for name, pairs in (("positive", positives), ("negative", negatives)):
        if pairs is not None:
            found[f"mined_{name}s"] = ops.mean(ops.sum(ops.cast(pairs, distance.dtype), axis=1))
            found[f"mined_{name}_distance"] = mean_of(pairs, distance)
    return found


def mean_of(mask: Tensor, values: Tensor) -> Tensor:
    """Returns the mean of the values `[B, B]` where the mask is True; NaN if it is True nowhere."""
    count = ops.sum(ops.cast(mask, values.dtype))
    total = ops.sum(ops.where(mask, values, 0.0))
    return ops.where(count > 0.0, total / ops.maximum(count, 1.0), float("nan"))
