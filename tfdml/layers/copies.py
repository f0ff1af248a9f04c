"""Copies of parts of functional models, with their own weights."""

import keras
import numpy as np
from keras import ops

from tfdml.layers.pooling import CeilMaxPooling
from tfdml.runtime.keras_internals import kernel_of, layers_of

# Standard deviation of the changes by `perturb_kernels`, relative to each value.
PERTURBATION = 0.05
CONVOLUTIONS = (keras.layers.Conv2D, keras.layers.DepthwiseConv2D, keras.layers.SeparableConv2D)
POOLINGS = (keras.layers.MaxPooling2D, keras.layers.AveragePooling2D, CeilMaxPooling)


def copied(part, prefix, *, keep_resolution=False):
    """Copies a functional model. The copy has its own layers, and its weights start from the same values.

    If `keep_resolution`, poolings are skipped and convolutions have stride 1. Convolutions that had a larger stride
    then pad their input themselves, and padding layers before them are skipped.
    """
    made, unstrided, before_padding = [], set(), {}

    def make(layer):
        config = {**layer.get_config(), "name": f"{prefix}_{layer.name}"}
        if keep_resolution and type(layer) is keras.Sequential:
            again = keras.Sequential([make(each) for each in layer.layers], name=config["name"])
        elif keep_resolution and _strides(layer, CONVOLUTIONS):
            again = type(layer).from_config(config | {"strides": (1, 1), "padding": "same"})
            unstrided.add(id(again))
        else:
            again = type(layer).from_config(config)
        made.append((layer, again))
        return again

    def call(layer, *args, **kwargs):
        if keep_resolution and (id(layer) in unstrided or _strides(layer, POOLINGS)):
            args = (before_padding.get(id(args[0]), args[0]), *args[1:])
        if keep_resolution and _strides(layer, POOLINGS):
            return args[0]
        result = layer(*args, **kwargs)
        if isinstance(layer, keras.layers.ZeroPadding2D):
            before_padding[id(result)] = args[0]
        return result

    copy = keras.models.clone_model(part, clone_function=make, call_function=call)
    for layer, again in made:
        # Operations in a graph, such as a sum, are not layers.
        if isinstance(layer, keras.Layer) and layer.weights and again.built:
            again.set_weights(layer.get_weights())
            # Low-rank changes (LoRA) freeze single variables, which a configuration does not contain.
            for variable, other in zip(again.weights, layer.weights, strict=True):
                variable.trainable = other.trainable
    return copy


def perturb_kernels(model, seed):
    """Changes the values of each kernel by a few percent, so that otherwise equal copies diverge in training."""
    random = np.random.default_rng(seed)
    for layer in layers_of(model):
        # Dense layers, convolutions and some custom layers have a kernel.
        if hasattr(layer, "kernel"):
            variable = kernel_of(layer)
            kernel = ops.convert_to_numpy(variable)
            variable.assign(kernel * (1 + PERTURBATION * random.standard_normal(kernel.shape).astype(kernel.dtype)))


def _strides(layer, kinds):
    if not isinstance(layer, kinds):
        return False
    strides = layer.strides
    return max(strides if isinstance(strides, tuple | list) else (strides,)) > 1
