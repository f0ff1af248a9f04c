"""Batch normalisation that training leaves alone."""

import keras

from tfdml.keras_internals import layers_of

WHICH = ("none", "statistics", "all")


def freeze_batch_norm(model, which="statistics"):
    """Makes every batch normalisation of a model normalise by its moving statistics in training too, and keep them.

    In a saved model's layers nothing of it is written, but for the models of `tfdml.methods`, which take it as an
    argument.

    Args:
        model: Keras model or layer.
        which: `statistics` leaves scales and offsets trainable; `all` freezes them too; `none` changes nothing.
    """
    if which not in WHICH:
        raise ValueError(f"Expected freeze_batch_norm to be one of {', '.join(WHICH)}, received {which!r}.")
    if which == "none":
        return
    found = batch_norms(model)
    if not found:
        raise ValueError(f"{model.name} has no batch normalisation to freeze; leave out freeze_batch_norm={which!r}.")
    for layer in found:
        if which == "all":
            # Keras then runs it in inference mode, whatever `training` says.
            layer.trainable = False
        else:
            _keep_statistics(layer)


def batch_norms(model):
    """All batch normalisation layers of a model, wherever they are in it."""
    return [layer for layer in layers_of(model) if isinstance(layer, keras.layers.BatchNormalization)]


def _keep_statistics(layer):
    """Runs a layer in inference mode, with trainable scales and offsets; Keras has both or neither."""
    call = layer.call
    layer.call = lambda inputs, training=None, mask=None: call(inputs, training=False, mask=mask)
