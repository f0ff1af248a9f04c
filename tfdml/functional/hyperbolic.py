"""Distances in the Poincaré ball, a model of hyperbolic space."""

from keras import ops

from tfdml.functional.distances import squared_distances
from tfdml.registry.arguments import Tensor

# Squared length up to which a row counts as zeros.
LEAST_SQUARED_LENGTH = 1e-24


def to_ball(embeddings: Tensor, *, curvature: float = 0.1, clip: float = 2.3) -> tuple[Tensor, Tensor]:
    """Maps rows `[B, d]` to points of the Poincaré ball, after clipping their lengths.

    A row x becomes `tanh(sqrt(c) |x|) x / (sqrt(c) |x|)`, the exponential map at the origin, where `|x|` is at most
    `clip`. Without clipping, all long rows would be so near the border of the ball that gradients vanish (Guo et al.,
    Clipped Hyperbolic Classifiers Are Super-Hyperbolic Classifiers, 2022).

    Args:
        embeddings: `[B, d]` of any length.
        curvature: the number c; the ball has the radius `1 / sqrt(c)`.
        clip: maximum length of a row.

    Returns:
        Points `[B, d]`, and `1 - c |u|^2` `[B]` for each point u.
    """
    squared = ops.sum(ops.square(embeddings), axis=1)
    # `<=` is False for NaN, so NaN is kept.
    zero = squared <= LEAST_SQUARED_LENGTH
    length = ops.where(zero, 0.0, ops.sqrt(ops.where(zero, 1.0, squared)))
    angle = curvature**0.5 * ops.minimum(length, clip)
    # For short rows, the ratio is 1 and its slope 0.
    ratio = ops.where(zero, 1.0, ops.tanh(angle) / (curvature**0.5 * ops.where(zero, 1.0, length)))
    return ratio[:, None] * embeddings, 1.0 / ops.square(ops.cosh(angle))


def poincare_distances(
    embeddings: Tensor, queries: int | None = None, *, curvature: float = 0.1, clip: float = 2.3
) -> Tensor:
    """Returns the hyperbolic distances `[B, B]` of rows that are mapped to the Poincaré ball by `to_ball`.

    The distance of points u and v is `arcosh(1 + 2 c |u - v|^2 / ((1 - c |u|^2) (1 - c |v|^2))) / sqrt(c)`, which is
    the length of the shortest way between them. A distance of 0 has a gradient of 0.

    Args:
        embeddings: `[B, d]` of any length.
        queries: number of first rows that are queries, or None. If set, distances are `[queries, B]`, and gradients
            move only the queries.
        curvature, clip: see `to_ball`.
    """
    points, scales = to_ball(embeddings, curvature=curvature, clip=clip)
    gallery = scales
    if queries is not None:
        gallery = ops.concatenate([scales[:queries], ops.stop_gradient(scales[queries:])])
    squared = squared_distances(points, queries=queries)
    excess = 2.0 * curvature * squared / (scales[:queries, None] * gallery[None, :])
    apart = ops.logical_not(excess <= 0.0)
    excess = ops.where(apart, excess, 1.0)
    # This is arcosh(1 + excess), in full precision for near points.
    distance = ops.log1p(excess + ops.sqrt(excess * (excess + 2.0)))
    return ops.where(apart, distance, 0.0) / curvature**0.5
