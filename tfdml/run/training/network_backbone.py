"""Makes a backbone of any Keras network that maps images to features with positions."""

import keras

from tfdml.backbones.borrowed import Borrowed
from tfdml.registry.arguments import saved_size

# Layers of Keras that scale pixels: a network that begins with one takes pixels from 0 to 255.
SCALING = (keras.layers.Rescaling, keras.layers.Normalization)


def backbone_of(network, preprocessing=None):
    """Returns a `Backbone` with the layers of a Keras network; a ValueError says why it cannot be one.

    Args:
        network: functional or sequential Keras model from images to features `[B, h, w, c]` or `[B, tokens, c]`.
        preprocessing: `tfdml.Preprocessing` that it was trained with; None: it scales pixels itself.
    """
    try:
        inputs, shape = network.inputs, network.output_shape
    except AttributeError:
        # Of a class of its own, which may do anything in its `call`.
        raise ValueError(f"it is a {type(network).__name__}, no functional or sequential Keras model") from None
    if len(inputs) != 1 or not isinstance(shape, tuple) or len(shape) not in (3, 4):
        raise ValueError(
            f"it gives {shape}, no features with positions, [B, h, w, c] or [B, tokens, c]; cut it before its pooling"
        )
    about = _scaling(network) if preprocessing is None else _scaling_of(preprocessing)
    if isinstance(network, keras.Sequential):
        # It has the graph of one, but not its output.
        network = keras.Model(inputs[0], network.outputs[0], name=network.name)
    return Borrowed(network, "keras", about)


def _scaling(network):
    first = next((layer for layer in network.layers if not isinstance(layer, keras.layers.InputLayer)), None)
    if not isinstance(first, SCALING):
        raise ValueError(
            "nothing says how its pixels are scaled; save it in a model of a method, whose preprocessing does: "
            "tfdml.Single(network, preprocessing=tfdml.Preprocessing(image_size=..., mean=..., std=...))"
        )
    height, width = network.input_shape[1:3]
    if not (height and width):
        raise ValueError("it does not say for images of which size it is")
    return {"mean": (0.0,) * 3, "std": (1.0,) * 3, "channels": "rgb", "image_size": saved_size(height, width)}


def _scaling_of(preprocessing):
    names = ("mean", "std", "channels", "image_size", "interpolation")
    return {name: getattr(preprocessing, name) for name in names}
