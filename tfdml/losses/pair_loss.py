"""A loss on pairs that another loss takes as an argument."""

import keras

from tfdml import registry
from tfdml.layers.loss_layer import layer_of


def read_pair_loss(loss):
    """Raises a ValueError for what is neither a loss, nor its spec, nor its configuration."""
    is_config = isinstance(loss, dict) and "class_name" in loss
    if not loss or not (is_config or isinstance(loss, str | keras.losses.Loss)):
        raise ValueError(loss)


def pair_loss(loss, taker):
    """Returns the loss of a spec or a configuration, or itself, which must be one on embeddings alone.

    Args:
        loss: what `read_pair_loss` lets pass.
        taker: name of the loss that takes it, for the error.
    """
    if isinstance(loss, dict):
        loss = keras.saving.deserialize_keras_object(loss)
    elif isinstance(loss, str):
        # A loss on proxies that knew no number of classes would ask for it, and then be refused.
        loss = registry.create("loss", loss, classes=2)
    if layer_of(loss) is not None:
        raise ValueError(
            f"{taker} takes a loss on pairs, such as triplet, received {type(loss).__name__}, which has variables for "
            "the whole embedding."
        )
    return loss
