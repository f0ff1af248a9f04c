"""Computes every endpoint of a little backbone with Keras on JAX: `WEIGHTS IMAGES OUTPUT`."""

import sys

import keras
import numpy as np

from tfdml.backbones import Backbone
from tfdml.backbones.inception import convolution
from tfdml.layers import CeilMaxPooling, LocalResponseNorm


def make():
    """A backbone of all that ours are made of."""
    inputs = keras.Input((None, None, 3), name="images")
    features = convolution(inputs, 8, 7, stride=2, name="conv1", norm_epsilon=1e-3)
    pooled = CeilMaxPooling(3, 2, name="pool1")(features)
    features = LocalResponseNorm(alpha=0.1, name="norm1")(pooled)
    features = convolution(features, 4, 3, name="conv2", bias=True)
    endpoints = {"pool1": pooled, "conv2": features}
    return Backbone(inputs, endpoints, mean=(0,) * 3, std=(1,) * 3, image_size=32)


def main():
    weights, images, output = sys.argv[1:]
    backbone = make()
    backbone.load_weights(weights)
    names = list(backbone.endpoints)
    features = backbone.taps(names)(np.load(images))
    np.savez(output, **{name: np.asarray(value) for name, value in zip(names, features, strict=True)})
    print(keras.backend.backend(), "tensorflow" in sys.modules)


if __name__ == "__main__":
    main()
