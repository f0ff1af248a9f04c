"""Distances and cosine similarities of all rows of a batch, with finite gradients everywhere."""

from collections.abc import Callable

from keras import ops

from tfdml.registry.arguments import Tensor


def known_gradient(
    function: Callable[[Tensor], tuple[Tensor, Callable[[Tensor], Tensor]]],
) -> Callable[[Tensor], Tensor]:
    """Decorates a `function(tensor)` that returns a value, and a function from the value's gradient to the tensor's.

    It is Keras' `custom_gradient` for functions of one tensor, on every backend. The gradient can use intermediate
    results of the function, and is itself differentiable for derivatives of second order.
    """

    @ops.custom_gradient
    def differentiable(tensor):
        value, gradient = function(tensor)

        def of_this_backend(*arguments, upstream=None):
            # PyTorch also passes the tensor, and passes by position what the others pass by name.
            return gradient(arguments[0] if upstream is None else upstream)

        return value, of_this_backend

    return differentiable


# Squared length up to which a row counts as zeros. Above it the gradient, with the cube of the inverse, is finite.
LEAST_SQUARED_LENGTH = 1e-24


def squared_distances(embeddings: Tensor, constant_gallery: bool = False, queries: int | None = None) -> Tensor:
    """Returns squared Euclidean distances `[B, B]` of the rows of `[B, d]`; exactly 0 on the diagonal.

    With `constant_gallery`, the gradient of a distance moves only the first of its two rows, the query. With `queries`
    distances are `[queries, B]`, of the first rows to all, and gradients move no others.
    """
    embeddings = _centered(embeddings)
    others = None if queries is None else ops.stop_gradient(embeddings[queries:])

    @known_gradient
    def compute(rows):
        squared = _squared_distances(rows, _gallery(rows, others, constant_gallery))

        def gradient(upstream):
            # Written so that NaN stays NaN.
            pulls = ops.where(squared <= 0.0, 0.0, upstream)
            return 2.0 * _moved(pulls, rows, others, constant_gallery)

        return squared, gradient

    return compute(embeddings[:queries])


def distances(embeddings: Tensor, constant_gallery: bool = False, queries: int | None = None) -> Tensor:
    """Returns Euclidean distances `[B, B]`, equation (1) of Divide and Conquer; the gradient of a distance of 0 is 0.

    For `constant_gallery` and `queries` see `squared_distances`.
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
    """Normalizes vectors `[..., d]` to unit length; a vector of zeros is unchanged and has a gradient of 0."""
    squared = ops.sum(ops.square(embeddings), axis=-1, keepdims=True)
    # Written so that NaN stays NaN.
    present = ops.logical_not(squared <= LEAST_SQUARED_LENGTH)
    return embeddings * ops.where(present, ops.rsqrt(ops.where(present, squared, 1.0)), 0.0)


def beginning_with(rows: Tensor, others: Tensor | None) -> Tensor:
    """Returns the gallery of rows: themselves, and behind them others, or None."""
    return rows if others is None else ops.concatenate([rows, others], axis=0)


def both_ways(pulls: Tensor, others: Tensor | None) -> Tensor:
    """Adds to each element of a pair of rows what the other way round has; others, or None, stand behind the rows."""
    if others is None:
        return pulls + ops.transpose(pulls)
    among = pulls[:, : ops.shape(pulls)[0]]
    return ops.concatenate([among + ops.transpose(among), pulls[:, ops.shape(pulls)[0] :]], axis=1)


def _centered(embeddings):
    """Subtracts the mean of the rows, which changes no distance, and no gradient.

    Otherwise rounding would hide distances that are much smaller than the lengths of rows.
    """
    return embeddings - ops.stop_gradient(ops.mean(embeddings, axis=0, keepdims=True))


def _gallery(rows, others, constant):
    return beginning_with(ops.stop_gradient(rows) if constant else rows, others)


def _squared_distances(rows, gallery):
    squared = ops.matmul(-2.0 * rows, ops.transpose(gallery))
    squared = squared + ops.sum(ops.square(rows), axis=1)[:, None]
    squared = squared + ops.sum(ops.square(gallery), axis=1)[None, :]
    # Rounding leaves small values of either sign on the diagonal: the gallery begins with the rows.
    numbers = ops.arange(ops.shape(rows)[0], dtype="int32")
    zeros = ops.zeros_like(rows[:, 0])
    return ops.scatter_update(ops.maximum(squared, 0.0), ops.stack([numbers, numbers], axis=1), zeros)


def _moved(pulls, rows, others, constant):
    """`[B, d]`: the sum of all `pulls_ij (x_i - x_j)`, and of `pulls_ji (x_i - x_j)` where both rows move."""
    if not constant:
        pulls = both_ways(pulls, others)
    return ops.sum(pulls, axis=1, keepdims=True) * rows - ops.matmul(pulls, _gallery(rows, others, constant))


def dot_products(rows: Tensor, queries: int | None = None) -> Tensor:
    """Returns the dot products `[B, B]` of the rows of `[B, d]`; `[queries, B]` of the first rows, see `pairs`."""
    others = None if queries is None else ops.stop_gradient(rows[queries:])

    @known_gradient
    def compute(rows):
        gallery = beginning_with(rows, others)

        def gradient(upstream):
            # One product; automatic differentiation, which sees the rows as two operands, takes two.
            return ops.matmul(both_ways(upstream, others), gallery)

        return ops.matmul(rows, ops.transpose(gallery)), gradient

    return compute(rows[:queries])


def cosines(embeddings: Tensor, queries: int | None = None) -> Tensor:
    """Returns the cosines `[B, B]` of the rows of `[B, d]`; a row of zeros has cosines and a gradient of 0.

    For `queries` see `dot_products`.
    """
    return dot_products(unit_length(embeddings), queries)
