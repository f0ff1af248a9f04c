"""Checks of values that only a step knows, and their errors in one sentence."""

import contextlib

import keras
import numpy as np
import tensorflow as tf

from tfdml.runtime.keras_internals import as_raised, errors_as_raised, is_ours

# TensorFlow's errors have these somewhere in many lines, as a graph or an eager step tells them.
_MESSAGES = set()
ARRAYS = np.ndarray | tf.Tensor | tf.Variable | keras.KerasTensor


def message_of_check(text):
    """Returns the text, the `message` of a check by `tf.debugging`, which `plain_errors` then knows."""
    _MESSAGES.add(text)
    return text


@contextlib.contextmanager
def plain_errors():
    """A context whose errors of tfdml are ValueErrors as they were raised, without texts of Keras and TensorFlow."""
    try:
        with errors_as_raised():
            yield
    except tf.errors.InvalidArgumentError as error:
        told = next((text for text in _MESSAGES if text in error.message), None)
        if told is None:
            raise
        raise ValueError(told) from None


@contextlib.contextmanager
def images_explained(images):
    """A context in which a network is called; where it refuses images without four axes, the error says so."""
    try:
        yield
    except (ValueError, tf.errors.InvalidArgumentError) as error:
        shape, raised = images.shape if isinstance(images, ARRAYS) else None, as_raised(error)
        if is_ours(raised) or shape is None or len(shape) == 4:
            raise
        hint = "One image needs an axis before these: images[None]. " if len(shape) == 3 and shape[-1] == 3 else ""
        reason = str(raised).partition("\n")[0]
        raise ValueError(
            f"Expected images of shape [batch, height, width, 3], received shape {tuple(shape)}. {hint}The network "
            f"says: {reason}"
        ) from None
