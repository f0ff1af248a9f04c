"""Matrices whose slices belong to several learners."""

from keras import ops


def size_of_slice(embedding_size, learners):
    """Returns the number of dimensions of each learner."""
    if learners < 1 or embedding_size < 1 or embedding_size % learners:
        raise ValueError(f"An embedding of size {embedding_size} cannot be split into {learners} equal learners.")
    if embedding_size == learners > 1:
        raise ValueError(
            f"{learners} learners of {embedding_size} dimensions have one each, which is 1 or -1 at unit length and "
            "learns nothing. Take fewer learners, or a larger embedding_size."
        )
    return embedding_size // learners


def sliced(initializer, count):
    """Initializer of a matrix that draws each slice of columns like the matrix of a separate layer.

    Args:
        initializer: a Keras initializer class.
        count: number of slices.
    """

    def draw(shape, dtype=None):
        slice_shape = (shape[0], shape[1] // count)
        return ops.concatenate([initializer()(slice_shape, dtype=dtype) for _ in range(count)], axis=1)

    return draw
