"""Trains on two virtual CPUs with a batch that does not split in two; prints the error."""

import keras
import numpy as np
import tensorflow as tf

import tfdml
from tfdml.runtime.devices import strategy_for

strategy = strategy_for("cpu:2")
with strategy.scope():
    model = tfdml.Single(keras.Sequential([keras.layers.Flatten()]), embedding_size=4)
    model.compile("sgd", loss="triplet")
data = tf.data.Dataset.from_tensor_slices(
    (np.random.default_rng(0).random((9, 4, 4, 3), "float32"), np.arange(9) // 3)
).batch(9)
try:
    model.fit(data, verbose=0)
except Exception as error:
    print(error)
