"""Several learners' layers in one."""

from keras import ops


def size_of_slice(embedding_size, learners):
    """Dimensions of each of so many learners, which have an embedding's together."""
    if learners < 1 or embedding_size < 1 or embedding_size % learners:
        raise ValueError(f"An embedding of size {embedding_size} cannot be cut into {learners} equal learners.")
    return embedding_size // learners


def sliced(initializer, count):
    """Initialiser of a matrix whose columns are cut into slices, each drawn as the matrix of a layer of its own.

    Args:
        initializer: class of Keras initialisers.
        count: number of slices.
    """

    def draw(shape, dtype=None):
        slice_shape = (shape[0], shape[1] // count)
        return ops.concatenate([initializer()(slice_shape, dtype=dtype) for _ in range(count)], axis=1)

    return draw
