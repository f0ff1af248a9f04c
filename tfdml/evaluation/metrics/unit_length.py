"""Vectors at unit length."""

import numpy as np


def unit_length(vectors):
    """Returns vectors `[..., d]` at unit length; zeros stay zeros."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return vectors / np.where(lengths > 0, lengths, 1.0)
