"""Distances of all rows of a batch, with finite gradients everywhere."""

from keras import ops

from tfdml.functional.known_gradient import known_gradient

# Squared length up to which a row counts as zeros. Above it the gradient, with the cube of the inverse, is finite.
LEAST_SQUARED_LENGTH = 1e-24


def squared_distances(embeddings, constant_gallery=False):
    """Returns squared Euclidean distances `[B, B]` of the rows of `[B, d]`; exactly 0 on the diagonal.

    With `constant_gallery`, the gradient of a distance moves only the first of its two rows, the query.
    """

    @known_gradient
    def compute(embeddings):
        squared = _squared_distances(embeddings, constant_gallery)

        def gradient(upstream):
            # Written so that NaN stays NaN.
            pulls = ops.where(squared <= 0.0, 0.0, upstream)
            return 2.0 * _moved(pulls, embeddings, constant_gallery)

        return squared, gradient

    return compute(embeddings)


def distances(embeddings, constant_gallery=False):
    """Returns Euclidean distances `[B, B]`, equation (1) of Divide and Conquer; the gradient of a distance of 0 is 0.

    With `constant_gallery`, the gradient of a distance moves only the first of its two rows, the query.
    """

    @known_gradient
    def compute(embeddings):
        distance = ops.sqrt(_squared_distances(embeddings, constant_gallery))

        def gradient(upstream):
            return _moved(ops.divide_no_nan(upstream, distance), embeddings, constant_gallery)

        return distance, gradient

    return compute(embeddings)


def unit_length(embeddings):
    """Normalizes vectors `[..., d]` to unit length; a vector of zeros is unchanged and has a gradient of 0."""
    squared = ops.sum(ops.square(embeddings), axis=-1, keepdims=True)
    # Written so that NaN stays NaN.
    present = ops.logical_not(squared <= LEAST_SQUARED_LENGTH)
    return embeddings * ops.where(present, ops.rsqrt(ops.where(present, squared, 1.0)), 0.0)


def _squared_distances(embeddings, constant_gallery):
    gallery = ops.stop_gradient(embeddings) if constant_gallery else embeddings
    squared = ops.matmul(-2.0 * embeddings, ops.transpose(gallery))
    squared = squared + ops.sum(ops.square(embeddings), axis=1)[:, None]
    squared = squared + ops.sum(ops.square(gallery), axis=1)[None, :]
    # Rounding leaves small values of either sign on the diagonal.
    rows = ops.arange(ops.shape(embeddings)[0], dtype="int32")
    zeros = ops.zeros_like(embeddings[:, 0])
    return ops.scatter_update(ops.maximum(squared, 0.0), ops.stack([rows, rows], axis=1), zeros)


def _moved(pulls, embeddings, constant_gallery):
    """`[B, d]`: the sum of all `pulls_ij (x_i - x_j)`, and of `pulls_ji (x_i - x_j)` where both rows move."""
    gallery = ops.stop_gradient(embeddings) if constant_gallery else embeddings
    if not constant_gallery:
        pulls = pulls + ops.transpose(pulls)
    return ops.sum(pulls, axis=1, keepdims=True) * embeddings - ops.matmul(pulls, gallery)
