"""The loss of each anchor, from any Keras loss."""

import tensorflow as tf


def anchor_values(loss, labels, *inputs):
    """Calls a Keras loss, and checks that it gives one value an anchor, `[B]`.

    Args:
        loss: Keras loss.
        labels: `[B]`, or those of the images that the batch is compared with.
        inputs: what the loss is called with beside labels: the embeddings `[B, d]`, or the output of its layer.
    """
    values = tf.convert_to_tensor(loss.call(labels, *inputs))
    if values.shape.rank == 2 and values.shape[1] == 1:
        return tf.squeeze(values, axis=1)
    if values.shape.rank not in (None, 1):
        hint = "" if values.shape.rank else " The step takes their mean; leave out the loss's own."
        raise ValueError(
            f"{type(loss).__name__}.call(labels, embeddings) gives shape {tuple(values.shape)}: expected [batch], one "
            f"value an anchor.{hint}"
        )
    return values
