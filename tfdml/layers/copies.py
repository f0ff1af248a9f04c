"""Copies of parts of functional models, with their own weights."""

import keras
import numpy as np

from tfdml.layers.ceil_max_pooling import CeilMaxPooling
from tfdml.runtime.keras_internals import layers_of

# Standard deviation of the changes by `perturb_kernels`, relative to each value.
PERTURBATION = 0.05
POOLINGS = (keras.layers.MaxPooling2D, keras.layers.AveragePooling2D, CeilMaxPooling)


def copied(part, prefix, *, keep_resolution=False):
    """Copies a model; the copy has its own layers, and weights with the same initial values.

    Args:
        part: functional Keras model, such as one of `Backbone.split_at`.
        prefix: prefix of the names of the copy's layers.
        keep_resolution: whether to keep the resolution: poolings are skipped, and convolutions have stride 1.
    """
    made = []

    def make(layer):
        config = {**layer.get_config(), "name": f"{prefix}_{layer.name}"}
        if keep_resolution and isinstance(layer, keras.layers.Conv2D):
            config["strides"] = (1, 1)
        made.append((layer, type(layer).from_config(config)))
        return made[-1][1]

    def call(layer, *args, **kwargs):
        return args[0] if keep_resolution and _pools(layer) else layer(*args, **kwargs)

    copy = keras.models.clone_model(part, clone_function=make, call_function=call)
    for layer, again in made:
        # Operations in a graph, such as a sum, are not layers.
        if isinstance(layer, keras.Layer) and layer.weights and again.built:
            again.set_weights(layer.get_weights())
    return copy


def perturb_kernels(model, seed):
    """Changes the values of each kernel by a few percent, so that copies diverge where everything else is equal."""
    random = np.random.default_rng(seed)
    for layer in layers_of(model):
        # Of dense layers, convolutions, and a user's own.
        if hasattr(layer, "kernel"):
            kernel = np.asarray(layer.kernel)
            layer.kernel.assign(kernel * (1 + PERTURBATION * random.standard_normal(kernel.shape).astype(kernel.dtype)))


def _pools(layer):
    if not isinstance(layer, POOLINGS):
        return False
    strides = layer.strides
    return max(strides if isinstance(strides, tuple) else (strides,)) > 1
