"""Computes every endpoint of a backbone with Keras on JAX: `SPEC WEIGHTS IMAGES OUTPUT`, arrays in .npy and .npz."""

import sys

import keras
import numpy as np

from tfdml import registry


def main():
    spec, weights, images, output = sys.argv[1:]
    backbone = registry.create("backbone", spec)
    backbone.load_weights(weights)
    names = list(backbone.endpoints)
    features = backbone.taps(names)(np.load(images))
    np.savez(output, **{name: np.asarray(value) for name, value in zip(names, features, strict=True)})
    print(keras.backend.backend(), "tensorflow" in sys.modules)


if __name__ == "__main__":
    main()
