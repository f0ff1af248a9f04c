"""Freezes batch normalization."""

import keras

from tfdml.registry.arguments import FrozenBatchNorm
from tfdml.registry.fields import declared
from tfdml.runtime.keras_internals import layers_of


@declared
def freeze_batch_norm(model: keras.layers.Layer, which: FrozenBatchNorm = "statistics") -> None:
    """Freezes the moving statistics of every batch normalization of a model, and normalizes with them in training too.

    A saved model does not store this, except for the models of `tfdml.methods`, which have an argument for it.

    Args:
        model: Keras model or layer.
        which: `statistics` leaves scales and offsets trainable; `all` freezes them too; `none` changes nothing.
    """
    if which == "none":
        return
    found = batch_norms(model)
    if not found:
        raise ValueError(f"{model.name} has no batch normalization to freeze; leave out freeze_batch_norm={which!r}.")
    for layer in found:
        if which == "all":
            # Keras then runs it in inference mode, whatever `training` says.
            layer.trainable = False
        else:
            _keep_statistics(layer)


def batch_norms(model):
    """Returns all batch normalization layers of a model, nested ones too."""
    return [layer for layer in layers_of(model) if isinstance(layer, keras.layers.BatchNormalization)]


def moves_statistics(layer):
    """Whether training normalizes with the statistics of each batch, and so moves those of a batch normalization."""
    return layer.trainable and not vars(layer).get("keeps_statistics", False)


def _keep_statistics(layer):
    """Runs a layer in inference mode with trainable scales and offsets, which Keras does not offer."""
    layer.keeps_statistics = True
    call = layer.call
    layer.call = lambda inputs, training=None, mask=None: call(inputs, training=False, mask=mask)
