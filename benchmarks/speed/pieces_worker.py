"""Measures steps in chunks for `pieces`: reads a JSON question per line and prints an answer per line."""

import json
import sys
import time

import keras
import numpy as np
import tensorflow as tf

import tfdml
from benchmarks.speed.peak_memory import MIB, peak, reset_peak


def step_of(pieces, batch, size):
    tf.config.threading.set_inter_op_parallelism_threads(1)
    keras.utils.set_random_seed(0)
    model = tfdml.methods.Single(tfdml.backbones.ResNet(depth=50), embedding_size=128, freeze_batch_norm="statistics")
    images = tf.constant(np.random.default_rng(0).normal(size=(batch, size, size, 3)), tf.float32)
    labels = tf.constant(np.arange(batch) // 4)
    model(images[:1])
    model.compile(keras.optimizers.SGD(1e-4), loss=tfdml.losses.MultiSimilarity(), pieces=pieces)
    model.optimizer.build(model.trainable_variables)

    @tf.function
    def step(images, labels):
        return model.train_step((images, labels))["loss"]

    return lambda: float(step(images, labels))


def main(case):
    del case
    step = None
    for line in sys.stdin:
        question = json.loads(line)
        if step is None:
            step = step_of(**question)
            held = reset_peak()
            step()
        began = time.perf_counter()
        step()
        seconds = time.perf_counter() - began
        print(json.dumps({"seconds": seconds, "step": (peak() - held) / MIB}), flush=True)
