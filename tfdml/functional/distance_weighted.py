"""Distance-weighted sampling of negatives, which samples near and far ones equally often.

Wu et al., Sampling Matters in Deep Embedding Learning, 2017.
"""

from typing import Annotated

from keras import ops

from tfdml.functional.log_sums import masked_softmax
from tfdml.registry.arguments import Positive, Tensor, number, optional, or_tensor
from tfdml.registry.fields import declared

Cutoff = Annotated[float, number(above=0, below=2)]
LossCutoff = Positive | None
# Of a function, whose arguments may be unknown while a graph is traced.
TracedCutoff = Annotated[float, or_tensor(number(above=0, below=2))]
TracedLossCutoff = Annotated[float | None, or_tensor(optional(number(above=0)))]
# Minimum of 1 - d^2 / 4, which is 0 for opposite points.
LEAST_REMAINDER = 1e-6


@declared
def negative_weights(
    distances: Tensor,
    negatives: Tensor,
    dim: int,
    *,
    cutoff: TracedCutoff = 0.5,
    nonzero_loss_cutoff: TracedLossCutoff = 1.4,
) -> Tensor:
    """Computes the probability `[B, B]` with which each anchor samples each row as its negative.

    Distances d of random points on the unit sphere of n dimensions have the density
    `q(d) ~ d^(n - 2) (1 - d^2 / 4)^((n - 3) / 2)`. A negative is sampled in proportion to `1 / q(d)`, so that no
    distance is sampled more often only because more points have it.

    Args:
        distances: `[B, B]` Euclidean distances of embeddings at unit length; distances above 2 count as 2.
        negatives: `[B, B]` mask.
        dim: dimensions of the embeddings.
        cutoff: smaller distances count as this one, which limits their weight.
        nonzero_loss_cutoff: negatives at this distance or farther are not sampled, because their loss would be 0. If an
            anchor has no others, all its negatives are equally likely. None: no limit.

    Returns:
        `[B, B]`, without gradients; each row sums to 1, or is 0 if the anchor has no negative.
    """
    check_cutoffs(cutoff, nonzero_loss_cutoff)
    distances = ops.stop_gradient(distances)
    log_weights = -_log_density(ops.clip(distances, cutoff, 2.0), dim)
    near = negatives
    if nonzero_loss_cutoff is not None:
        near = ops.logical_and(negatives, distances < nonzero_loss_cutoff)
    has_near = ops.any(near, axis=1, keepdims=True)
    drawn = ops.where(has_near, near, negatives)
    return masked_softmax(drawn, ops.where(has_near, log_weights, 0.0))


def check_cutoffs(cutoff: float, nonzero_loss_cutoff: float | None) -> None:
    """Raises a ValueError if no distance is between the two."""
    if nonzero_loss_cutoff is not None and not nonzero_loss_cutoff > cutoff:
        raise ValueError(
            f"Expected a nonzero_loss_cutoff above the cutoff of {cutoff}, or None, received {nonzero_loss_cutoff}."
        )


def _log_density(distances, dim):
    # In logarithms, because with hundreds of dimensions the density exceeds the range of floating point.
    dim = ops.cast(dim, distances.dtype)
    remainder = ops.maximum(1.0 - ops.square(distances) / 4.0, LEAST_REMAINDER)
    return (dim - 2.0) * ops.log(distances) + (dim - 3.0) / 2.0 * ops.log(remainder)
