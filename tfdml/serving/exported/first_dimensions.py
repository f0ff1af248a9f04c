"""`Prefix`: the first dimensions of an embedding that was trained nested."""

import tensorflow as tf


class Prefix:
    """Keeps the first dimensions of embeddings, and brings these to unit length.

    Args:
        size: dimensions of the embeddings.
        dims: how many of them are kept, one of the `dims` that `tfdml.losses.Nested` trained.
    """

    def __init__(self, size, dims):
        self.dimension = dims
        self.description = f"the first {dims} of {size} dimensions, which were trained nested"

    def __call__(self, embeddings):
        """Returns the first dimensions `[B, N]` of embeddings `[B, D]`."""
        return tf.math.l2_normalize(embeddings[:, : self.dimension], axis=-1)
