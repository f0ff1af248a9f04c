"""Shape checks whose messages say what was expected and what was received."""

from keras import ops
from keras.backend import standardize_dtype


def check_pairs_input(labels, embeddings):
    """Returns `(labels [B], embeddings [B, d] in float32 or float64)`, or raises a ValueError.

    Args:
        labels: `[B]` or `[B, 1]` class numbers.
        embeddings: `[B, d]` floating point.
    """
    labels, embeddings = ops.convert_to_tensor(labels), ops.convert_to_tensor(embeddings)
    if len(embeddings.shape) != 2:
        raise ValueError(f"Expected embeddings of shape [batch, dim], received shape {tuple(embeddings.shape)}.")
    if len(labels.shape) == 2 and labels.shape[1] == 1:
        labels = ops.squeeze(labels, axis=1)
    if len(labels.shape) != 1:
        raise ValueError(
            f"Expected labels of shape [batch] holding class numbers, received shape {tuple(labels.shape)}. "
            "One-hot labels need argmax first."
        )
    if None not in (labels.shape[0], embeddings.shape[0]) and labels.shape[0] != embeddings.shape[0]:
        raise ValueError(f"Received {labels.shape[0]} labels for {embeddings.shape[0]} embeddings; expected as many.")
    # Distances lose their meaning in half precision, so losses leave it, whatever the policy of the network is.
    if standardize_dtype(embeddings.dtype) != "float64":
        embeddings = ops.cast(embeddings, "float32")
    return labels, embeddings
