"""Measures steps for `sharded_classes`: reads a JSON question per line and prints an answer per line."""

import json
import sys

import keras
import numpy as np
import tensorflow as tf

import tfdml
from benchmarks.speed.peak_memory import MIB, peak, reset_peak
from benchmarks.speed.sampled_classes_worker import least_seconds
from tfdml.runtime.devices import strategy_for

DIM, SIDE = 128, 4


def main(devices):
    strategy = strategy_for(devices)
    # The same as in a run.
    tf.config.experimental.enable_op_determinism()
    for line in sys.stdin:
        print(json.dumps(measure(strategy, **json.loads(line))), flush=True)


def measure(strategy, classes, sharded, batch, rounds):
    before = reset_peak()
    step = step_of(strategy, tfdml.losses.NormSoftmax(classes=classes, sharded=sharded), classes, batch)
    made = peak()
    step()
    reset_peak()
    seconds = least_seconds(step, rounds)
    return {"seconds": seconds, "made": (made - before) / MIB, "step": (peak() - before) / MIB}


def step_of(strategy, loss, classes, batch):
    """Returns a training step of a model with a minimal network."""
    random = np.random.default_rng(0)
    with strategy.scope():
        model = tfdml.methods.Single(keras.Sequential([keras.layers.Conv2D(8, 3)]), embedding_size=DIM)
        model(np.zeros((1, SIDE, SIDE, 3), np.float32))
        model.compile(keras.optimizers.SGD(0.1, momentum=0.9), loss=loss)
        model.optimizer.build(model.trainable_variables)
    share = batch // strategy.num_replicas_in_sync
    images = tf.constant(random.normal(size=(share, SIDE, SIDE, 3)), tf.float32)
    labels = tf.constant(random.integers(0, classes, share))

    @tf.function(autograph=False)
    def step():
        each = strategy.run(lambda: model.train_step((images, labels))["loss"])
        return strategy.experimental_local_results(each)[0]

    return lambda: float(step())
