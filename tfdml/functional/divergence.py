"""Divergence of learners."""

from keras import ops

from tfdml.functional.checks import at_least_float32
from tfdml.registry.arguments import Tensor


def divergence_loss(learners: Tensor, *, margin: float = 1.0) -> Tensor:
    """Computes each image's divergence loss `sum_{p != q} max(0, margin - |x_p - x_q|^2)` over its learners p and q.

    This is one image's part of equation (9) of Attention-based Ensemble. As in its sum over p, q, each pair of learners
    counts twice, once in either order. The paper sums over images. The mean over images divides this sum by their
    number, as equation (10) does with its own sum.

    Args:
        learners: `[B, K, d]` embeddings of the same images by K learners.
        margin: squared distance from which the loss of two learners is 0.

    Returns:
        `[B]`; 0 for a single learner.
    """
    learners = check_learners(learners)
    squared_norms = ops.sum(ops.square(learners), axis=2)
    products = ops.matmul(learners, ops.transpose(learners, (0, 2, 1)))
    squared = squared_norms[:, :, None] + squared_norms[:, None, :] - 2.0 * products
    different = 1.0 - ops.eye(ops.shape(learners)[1], dtype=learners.dtype)
    return ops.sum(ops.maximum(margin - ops.maximum(squared, 0.0), 0.0) * different, axis=(1, 2))


def check_learners(learners: Tensor) -> Tensor:
    """Converts learners `[B, K, d]` to a tensor of float32 or float64."""
    learners = ops.convert_to_tensor(learners)
    if len(learners.shape) != 3:
        raise ValueError(f"Expected embeddings of shape [batch, learners, dim], received {tuple(learners.shape)}.")
    return at_least_float32(learners)
