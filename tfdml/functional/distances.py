"""Distances between all rows of a batch, with finite gradients everywhere."""

from keras import ops


def squared_distances(embeddings):
    """Squared Euclidean distances `[B, B]` between the rows of `[B, d]`; exactly 0 on the diagonal."""
    squared_norms = ops.sum(ops.square(embeddings), axis=1)
    products = ops.matmul(embeddings, ops.transpose(embeddings))
    squared = squared_norms[:, None] + squared_norms[None, :] - 2.0 * products
    # Rounding leaves small values of either sign where a row meets itself.
    off_diagonal = 1.0 - ops.eye(ops.shape(embeddings)[0], dtype=embeddings.dtype)
    return ops.maximum(squared, 0.0) * off_diagonal


def distances(embeddings):
    """Euclidean distances `[B, B]`, equation (1) of Divide and Conquer; where it is 0, so is its gradient."""
    squared = squared_distances(embeddings)
    # Written so that what is no number stays none.
    positive = ops.logical_not(squared <= 0.0)
    return ops.where(positive, ops.sqrt(ops.where(positive, squared, 1.0)), 0.0)
