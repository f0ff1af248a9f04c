"""Trains models on two virtual CPUs, made, called or compiled as the functions say that are named as arguments.

Prints each loss or error.
"""

import sys

import keras
import numpy as np
import tensorflow as tf

import tfdml
from tfdml.runtime.devices import strategy_for

IMAGES, LABELS = np.random.default_rng(0).normal(size=(8, 4, 4, 3)).astype("f"), np.arange(8) // 2
STRATEGY = strategy_for("cpu:2")


def backbone():
    return keras.Sequential([keras.Input((4, 4, 3)), keras.layers.Flatten(), keras.layers.Dense(4, name="inner")])


def model_of(network, policy=None):
    return tfdml.Single(network, embedding_size=4, dtype=policy)


def compiled(model, optimizer="adam"):
    model.compile(optimizer, loss="proxy_nca(classes=4)")
    return model


def predicted_first():
    with STRATEGY.scope():
        model = compiled(model_of(backbone()))
    model.predict(IMAGES, verbose=0)
    return model


def called_outside():
    with STRATEGY.scope():
        model = compiled(model_of(backbone()))
    model(IMAGES)
    return model


def built_and_compiled_outside():
    with STRATEGY.scope():
        model = model_of(backbone())
    model.build((None, 4, 4, 3))
    return compiled(model)


def in_half_precision():
    with STRATEGY.scope():
        return compiled(model_of(backbone(), "bfloat16"), keras.optimizers.Adam(global_clipnorm=1.0))


def called_in_replicas():
    with STRATEGY.scope():
        model = model_of(backbone())
    STRATEGY.run(model, args=(tf.constant(IMAGES),))
    return compiled(model)


def model_outside():
    model = model_of(backbone())
    with STRATEGY.scope():
        return compiled(model)


def backbone_outside():
    outside = backbone()
    with STRATEGY.scope():
        return compiled(model_of(outside))


def optimizer_outside():
    outside = keras.optimizers.Adam()
    with STRATEGY.scope():
        return compiled(model_of(backbone()), outside)


data = tf.data.Dataset.from_tensors((IMAGES, LABELS))
for name in sys.argv[1:]:
    try:
        print(name, np.isfinite(globals()[name]().fit(data, verbose=0).history["loss"][0]))
    except Exception as error:
        print(name, error)
