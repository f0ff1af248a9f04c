"""How much a network computes for an image."""

import math

import keras
from keras import layers

# Every element of these kernels is multiplied once at each position of the output.
KERNELS = {
    layers.Conv2D: ("kernel",),
    layers.DepthwiseConv2D: ("kernel",),
    layers.SeparableConv2D: ("depthwise_kernel", "pointwise_kernel"),
    layers.Dense: ("kernel",),
}


def multiply_adds(model, input_shape):
    """Multiplications, each with an addition, that convolutions and dense layers need for one image.

    This is what papers and libraries mostly call FLOPs; pooling, norms and other elementwise work are not in it.

    Args:
        model: functional Keras model with one input; one of `Backbone.split_at` will do.
        input_shape: shape of the input without the batch, such as (224, 224, 3).
    """
    total = 0

    def call(layer, *args, **kwargs):
        nonlocal total
        outputs = layer(*args, **kwargs)
        total += _of_layer(layer, outputs)
        return outputs

    # Keras computes shapes as it makes the graph again; layers are made again too, so that these learn of no new use.
    keras.models.clone_model(model, input_tensors=keras.Input(input_shape), call_function=call)
    return total


def _of_layer(layer, outputs):
    names = KERNELS.get(type(layer), ())
    if not names and any(len(weight.shape) > 1 for weight in layer.trainable_weights):
        raise ValueError(
            f"Cannot count what {layer.name} computes, a {type(layer).__name__}. Known: convolutions and dense layers."
        )
    positions = math.prod(outputs.shape[1:-1]) if names else 0
    return positions * sum(math.prod(getattr(layer, name).shape) for name in names)
