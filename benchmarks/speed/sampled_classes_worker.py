"""Measures the loss or a step for `sampled_classes`: reads a JSON question per line and prints an answer per line."""

import json
import sys
import time

import keras
import numpy as np
import tensorflow as tf

import tfdml
from benchmarks.speed.peak_memory import MIB, peak, reset_peak

DIM, SIDE = 128, 4


def loss_of(loss, batch, labels):
    """Returns a function of the loss and its gradients. Gradients of sampled proxies remain sparse rows."""
    layer = loss.make_layer()
    layer.build((None, DIM))
    layer.built = True
    embeddings = tf.constant(np.random.default_rng(0).normal(size=(batch, DIM)), tf.float32)

    @tf.function
    def compute(embeddings, labels):
        with tf.GradientTape() as tape:
            tape.watch(embeddings)
            value = tf.reduce_mean(loss.call(labels, layer(embeddings, labels)))
        gradients = tape.gradient(value, [embeddings, layer.proxies.value])
        # Read the values, so that they are computed.
        return value + sum(tf.reduce_sum(getattr(each, "values", each)) for each in gradients)

    return lambda: float(compute(embeddings, labels))


def step_of(loss, batch, labels):
    """Returns a training step of a model with a minimal network."""
    images = tf.constant(np.random.default_rng(0).normal(size=(batch, SIDE, SIDE, 3)), tf.float32)
    model = tfdml.methods.Single(keras.Sequential([keras.layers.Conv2D(8, 3)]), embedding_size=DIM)
    model(images[:1])
    model.compile(keras.optimizers.SGD(0.1), loss=loss)
    model.optimizer.build(model.trainable_variables)

    @tf.function
    def step(images, labels):
        return model.train_step((images, labels))["loss"]

    return lambda: float(step(images, labels))


def measure(part, classes, batch, sampled, rounds):
    labels = tf.constant(np.random.default_rng(1).integers(0, classes, batch))
    loss = tfdml.losses.NormSoftmax(classes=classes, sampled_classes=sampled)
    held = reset_peak()
    run = {"loss": loss_of, "step": step_of}[part](loss, batch, labels)
    run()
    return {"seconds": least_seconds(run, rounds), "mib": (peak() - held) / MIB}


def least_seconds(run, rounds):
    """Returns the minimum CPU seconds of a function over several calls."""
    seconds = []
    for _ in range(rounds):
        began = time.process_time()
        run()
        seconds.append(time.process_time() - began)
    return min(seconds)


def main(part):
    for line in sys.stdin:
        print(json.dumps(measure(part, **json.loads(line))), flush=True)
