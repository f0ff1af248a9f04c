"""The backbone of a run with its first weights."""

import logging
import re

import keras
import numpy as np
import tensorflow as tf

from tfdml import registry
from tfdml.backbones import Backbone
from tfdml.backbones.backbone import MOMENTUM, follow_batches
from tfdml.console.startup import tensorflow_reason
from tfdml.registry.arguments import sides_of
from tfdml.run.directory.models_on_disk import load_weights, ways_to_weights

LOGGER = logging.getLogger(__name__)


def initial_backbone(network, tell, vector_dims=None):
    """The backbone of `NetworkSettings` with its first weights.

    Args:
        network: `NetworkSettings`.
        tell: whether to log which weights were loaded.
        vector_dims: number of dimensions of the dataset's vectors; None: it has images.
    """
    backbone = make_backbone(network.backbone, vector_dims)
    if network.initial_weights:
        loaded = load_weights(backbone, network.initial_weights)
        if tell:
            LOGGER.info(loaded)
    elif not backbone.pretrained:
        before = follow_batches(backbone)
        if before and tell:
            momenta = MOMENTUM, before
            LOGGER.info("Batch norm of random weights moves its statistics with momentum %s, not %g.", *momenta)
    return backbone


def make_backbone(spec, vector_dims=None):
    """The backbone of a spec, which declares how pixels are scaled, or a ValueError; `vector_dims` as above."""
    backbone = registry.create("backbone", spec, vector_dims=vector_dims)
    if not isinstance(backbone, Backbone):
        raise ValueError(
            f"--backbone={spec}: {type(backbone).__name__} must be a tfdml.backbones.Backbone, which "
            "declares how pixels are scaled: Backbone(inputs, {'output': outputs}, mean=..., std=..., image_size=...)."
        )
    return backbone


def check_pretrained(backbone, network):
    """Raises a ValueError if a backbone would have random weights, where nothing trains it."""
    if not network.initial_weights and not backbone.pretrained:
        raise ValueError(
            f"--backbone={network.backbone} has random weights, whose features are of no use without training. Give "
            f"weights by --initial_weights: {ways_to_weights(backbone)}"
        )


def check_takes(backbone, size, spec):
    """Raises a ValueError if a backbone does not take images of a size: alone, which tells it in clearer words."""
    sides, own = sides_of(size), backbone.image_size
    shape = (1, *sides, 3)
    try:
        # First by shapes: of smaller images than its own a network may leave nothing, and TensorFlow then crashes.
        if min(sides) < min(sides_of(own)) and 0 in backbone.compute_output_spec(keras.KerasTensor(shape)).shape:
            raise ValueError("Nothing would be left of them.")
        backbone(np.zeros(shape, np.float32))
    except (tf.errors.InvalidArgumentError, ValueError) as error:
        such = f", such as {own}, its own" if own != size else ""
        raise ValueError(
            f"--backbone={spec} does not take images of {sides.height} x {sides.width} pixels; give another "
            f"--image_size{such}. It says: {_said(error)}."
        ) from error


def _said(error):
    """Returns the sentence of an error that says what is wrong; Keras prints it in bold."""
    if isinstance(error, tf.errors.OpError):
        return tensorflow_reason(error)
    *_, last = re.findall(r"\x1b\[1m([^\x1b]*)", str(error)) or [str(error)]
    return last.split(". ")[0].strip().rstrip(".")
