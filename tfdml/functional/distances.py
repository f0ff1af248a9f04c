"""Distances between all rows of a batch, with finite gradients everywhere."""

from keras import ops

# Squared length up to which a row counts as zeros. Above it the gradient, with the inverse's cube, is a number.
LEAST_SQUARED_LENGTH = 1e-24


def squared_distances(embeddings, constant_gallery=False):
    """Squared Euclidean distances `[B, B]` between the rows of `[B, d]`; exactly 0 on the diagonal.

    With `constant_gallery` the gradient of a distance moves the first of its rows only, the query.
    """
    gallery = ops.stop_gradient(embeddings) if constant_gallery else embeddings
    squared_norms = ops.sum(ops.square(embeddings), axis=1)[:, None] + ops.sum(ops.square(gallery), axis=1)[None, :]
    squared = squared_norms - 2.0 * ops.matmul(embeddings, ops.transpose(gallery))
    # Rounding leaves small values of either sign where a row meets itself.
    off_diagonal = 1.0 - ops.eye(ops.shape(embeddings)[0], dtype=embeddings.dtype)
    return ops.maximum(squared, 0.0) * off_diagonal


def distances(embeddings, constant_gallery=False):
    """Euclidean distances `[B, B]`, equation (1) of Divide and Conquer; where it is 0, so is its gradient.

    With `constant_gallery` the gradient of a distance moves the first of its rows only, the query.
    """
    squared = squared_distances(embeddings, constant_gallery)
    # Written so that what is no number stays none.
    positive = ops.logical_not(squared <= 0.0)
    return ops.where(positive, ops.sqrt(ops.where(positive, squared, 1.0)), 0.0)


def unit_length(embeddings):
    """Vectors `[..., d]` at unit length; one of zeros stays as it is, and has no gradient."""
    squared = ops.sum(ops.square(embeddings), axis=-1, keepdims=True)
    # Written so that what is no number stays none.
    present = ops.logical_not(squared <= LEAST_SQUARED_LENGTH)
    return ops.where(present, embeddings * ops.rsqrt(ops.where(present, squared, 1.0)), 0.0)
