"""Distances and cosine similarities of all rows of a batch, with finite gradients everywhere."""

import math
from collections.abc import Callable

from keras import ops

from tfdml.registry.arguments import Tensor


def known_gradient(
    function: Callable[[Tensor], tuple[Tensor, Callable[[Tensor], Tensor]]],
) -> Callable[[Tensor], Tensor]:
    """Decorates a `function(tensor)` that returns a value and a function from the value's gradient to the tensor's.

    This is Keras' `custom_gradient` for functions of one tensor, on every backend. The gradient can use intermediate
    results of the function and is itself differentiable for second-order derivatives.
    """

    @ops.custom_gradient
    def differentiable(tensor):
        value, gradient = function(tensor)

        def of_this_backend(*arguments, upstream=None):
            # PyTorch passes the gradient by position, other backends pass it by name.
            return gradient(arguments[0] if upstream is None else upstream)

        return value, of_this_backend

    return differentiable


# Squared length up to which a row counts as zeros. For longer rows, the cube of the inverse length in the gradient is
# finite.
LEAST_SQUARED_LENGTH = 1e-24


def squared_distances(embeddings: Tensor, constant_gallery: bool = False, queries: int | None = None) -> Tensor:
    """Returns squared Euclidean distances `[B, B]` of the rows of `[B, d]`, exactly 0 on the diagonal.

    Args:
        embeddings: `[B, d]`.
        constant_gallery: whether the gradient of a distance moves only the first of its two rows, the query.
        queries: number of first rows that are queries, or None. If set, distances are `[queries, B]`, and gradients
            move only the queries.
    """
    embeddings = _centered(embeddings)
    others = None if queries is None else ops.stop_gradient(embeddings[queries:])

    @known_gradient
    def compute(rows):
        squared = _squared_distances(rows, _gallery(rows, others, constant_gallery))

        def gradient(upstream):
            # `<=` is False for NaN, so NaN is kept.
            pulls = ops.where(squared <= 0.0, 0.0, upstream)
            return 2.0 * _moved(pulls, rows, others, constant_gallery)

        return squared, gradient

    return compute(embeddings[:queries])


def distances(embeddings: Tensor, constant_gallery: bool = False, queries: int | None = None) -> Tensor:
    """Returns Euclidean distances `[B, B]`, equation (1) of Divide and Conquer. A distance of 0 has a gradient of 0.

    The arguments are the same as for `squared_distances`.
    """
    embeddings = _centered(embeddings)
    others = None if queries is None else ops.stop_gradient(embeddings[queries:])

    @known_gradient
    def compute(rows):
        distance = ops.sqrt(_squared_distances(rows, _gallery(rows, others, constant_gallery)))

        def gradient(upstream):
            return _moved(ops.divide_no_nan(upstream, distance), rows, others, constant_gallery)

        return distance, gradient

    return compute(embeddings[:queries])


def unit_length(embeddings: Tensor) -> Tensor:
    """L2-normalizes vectors `[..., d]`. A vector of zeros remains unchanged and has a gradient of 0."""
    squared = ops.sum(ops.square(embeddings), axis=-1, keepdims=True)
    # `<=` is False for NaN, so NaN is kept.
    present = ops.logical_not(squared <= LEAST_SQUARED_LENGTH)
    return embeddings * ops.where(present, ops.rsqrt(ops.where(present, squared, 1.0)), 0.0)


def beginning_with(rows: Tensor, others: Tensor | None) -> Tensor:
    """Returns the gallery of rows: the rows themselves, followed by `others` unless that is None."""
    return rows if others is None else ops.concatenate([rows, others], axis=0)


def both_ways(pulls: Tensor, others: Tensor | None) -> Tensor:
    """Adds the transposed values to the columns of the rows. Columns of `others`, unless None, remain unchanged."""
    if others is None:
        return pulls + ops.transpose(pulls)
    among = pulls[:, : ops.shape(pulls)[0]]
    return ops.concatenate([among + ops.transpose(among), pulls[:, ops.shape(pulls)[0] :]], axis=1)


def _centered(embeddings):
    """Subtracts the mean of the rows, which changes neither distances nor gradients.

    Without this, rounding would hide distances that are much smaller than the rows' lengths.
    """
    return embeddings - ops.stop_gradient(ops.mean(embeddings, axis=0, keepdims=True))


def _gallery(rows, others, constant):
    return beginning_with(ops.stop_gradient(rows) if constant else rows, others)


def _squared_distances(rows, gallery):
    squared = ops.matmul(-2.0 * rows, ops.transpose(gallery))
    squared = squared + ops.sum(ops.square(rows), axis=1)[:, None]
    squared = squared + ops.sum(ops.square(gallery), axis=1)[None, :]
    # Rounding leaves small values on the diagonal, which compares rows with themselves.
    numbers = ops.arange(ops.shape(rows)[0], dtype="int32")
    zeros = ops.zeros_like(rows[:, 0])
    return ops.scatter_update(ops.maximum(squared, 0.0), ops.stack([numbers, numbers], axis=1), zeros)


def _moved(pulls, rows, others, constant):
    """Returns `[B, d]`: for each row i, the sum of `pulls_ij (x_i - x_j)`, plus `pulls_ji (x_i - x_j)` if j moves."""
    if not constant:
        pulls = both_ways(pulls, others)
    return ops.sum(pulls, axis=1, keepdims=True) * rows - ops.matmul(pulls, _gallery(rows, others, constant))


def dot_products(rows: Tensor, queries: int | None = None) -> Tensor:
    """Returns the dot products `[B, B]` of the rows of `[B, d]`, or `[queries, B]` of the first rows with all rows."""
    others = None if queries is None else ops.stop_gradient(rows[queries:])

    @known_gradient
    def compute(rows):
        gallery = beginning_with(rows, others)

        def gradient(upstream):
            # This needs a single product. Automatic differentiation would need two, one for each operand.
            return ops.matmul(both_ways(upstream, others), gallery)

        return ops.matmul(rows, ops.transpose(gallery)), gradient

    return compute(rows[:queries])


def cosines(embeddings: Tensor, queries: int | None = None) -> Tensor:
    """Returns the cosines of the rows of `[B, d]`, as `dot_products` does. For a row of zeros, they are 0."""
    return dot_products(unit_length(embeddings), queries)


def turned(cosine: Tensor, angle: float) -> Tensor:
    """Returns the cosine of an angle plus `angle` radians from the cosine of the former, with finite gradients."""
    # Rounding can make cosines larger than 1.
    cosine = ops.clip(cosine, -1.0, 1.0)
    squared_sine = (1.0 - cosine) * (1.0 + cosine)
    # A sine of 0 has an infinite gradient. The negated comparison keeps NaN as NaN.
    between = ops.logical_not(squared_sine <= 0.0)
    sine = ops.where(between, ops.sqrt(ops.where(between, squared_sine, 1.0)), 0.0)
    return cosine * math.cos(angle) - sine * math.sin(angle)


def power_distances(embeddings: Tensor, p: float, root: bool = True, queries: int | None = None) -> Tensor:
    """Returns the Lp distances `[B, B]` of the rows of `[B, d]`, or their p-th powers. A distance of 0 has no gradient.

    It adds up one dimension after another, because the differences of all pairs in all dimensions need too much memory.

    Args:
        embeddings: `[B, d]`.
        p: exponent, at least 1.
        root: whether to return distances instead of their p-th powers.
        queries: see `squared_distances`.
    """
    others = None if queries is None else ops.stop_gradient(embeddings[queries:])

    @known_gradient
    def compute(rows):
        columns, gallery = ops.transpose(rows), ops.transpose(beginning_with(rows, others))

        def differences(dim):
            return columns[dim][:, None] - gallery[dim][None, :]

        def add(dim, powers):
            return powers + _power(ops.abs(differences(dim)), p)

        powers = ops.fori_loop(0, embeddings.shape[1], add, 0.0 * differences(0))
        distance = _power(powers, 1.0 / p)

        def gradient(upstream):
            # The derivative of the root is d^(1 - p) / p.
            scale = ops.divide_no_nan(upstream, _power(distance, p - 1.0)) if root else p * upstream
            scale = ops.where(powers <= 0.0, 0.0, scale)

            def move(dim, moved):
                change = differences(dim)
                pulls = scale * ops.sign(change)
                pulls = pulls if p == 1.0 else pulls * _power(ops.abs(change), p - 1.0)
                of_rows = ops.sum(pulls, axis=1) - ops.sum(pulls[:, : ops.shape(rows)[0]], axis=0)
                return ops.slice_update(moved, (dim, 0), of_rows[None])

            return ops.transpose(ops.fori_loop(0, embeddings.shape[1], move, ops.zeros_like(columns)))

        return distance if root else powers, gradient

    return compute(embeddings[:queries])


def _power(values, exponent):
    """Returns values to the power of an exponent, which is slow unless it is 0 or 1."""
    return ops.ones_like(values) if exponent == 0.0 else values if exponent == 1.0 else values**exponent


def signal_to_noise_distances(embeddings: Tensor, queries: int | None = None) -> Tensor:
    """Returns the variance of each anchor's difference to each row, divided by the anchor's variance, `[B, B]`.

    Variances are over dimensions. For an anchor with equal dimensions, all distances are 0.
    """
    rows = embeddings - ops.mean(embeddings, axis=1, keepdims=True)
    signal = ops.sum(ops.square(rows[:queries]), axis=1, keepdims=True)
    present = ops.logical_not(signal <= LEAST_SQUARED_LENGTH)
    return squared_distances(rows, queries=queries) * ops.where(present, 1.0 / ops.where(present, signal, 1.0), 0.0)
