"""Measures what EDMS adds to the time of an epoch, and the network itself: `python -m benchmarks.speed.edms`.

Batches of 128 images and 128 dimensions, on synthetic features. Prints a Markdown table with a row for each number of
images and of meta-classes, in seconds of all cores:

- proxies: as many steps of equation (7) as `proxy_steps` of a loss allows by default; a tolerance can end it before.
- solve: similarities along the manifold, equations (9) and (10), and their gradient, in each batch.
- loss: equation (12) of these similarities and its gradient.
- embedding: the features of all images, which the proxies need.
- network: training steps of a ResNet-18 at 224 pixels with proxies, without random walks.

Then it prints what part of the network's step the solve is, by all cores and by the clock. All are the fastest of
several rounds in one process; network and embedding are measured on smaller batches, and scaled. Needs the extra cpu.
Where other processes share the cores, OPENBLAS_NUM_THREADS=1 keeps NumPy's threads from waiting for each other.
"""

import argparse

import keras
import numpy as np
import tensorflow as tf

import tfdml
from benchmarks.markdown import markdown
from benchmarks.speed.hard_neighbors import measured
from tfdml.callbacks.proxies import objective

BATCH, DIM = 128, 128
HEADS = ["images", "K", "proxies", "solve", "loss", "embedding", "network", "added"]


def fastest(function, rounds):
    """Returns the minimum wall time of a function, and the time of all cores, in seconds."""
    function()
    return np.min([measured(function) for _ in range(rounds)], axis=0)


def features(count):
    found = np.random.default_rng(count).normal(size=(count, DIM))
    return (found / np.linalg.norm(found, axis=1, keepdims=True)).astype(np.float32)


def with_gradient(function, given):
    """Returns a graph function that computes a function of a tensor and its gradient."""
    given = tf.constant(given)

    @tf.function
    def both():
        with tf.GradientTape() as tape:
            tape.watch(given)
            values = function(given)
        return tape.gradient(values, given)

    return both


def network(batch, rounds):
    """Returns the seconds of a training step and of embedding, for batches of `BATCH`."""
    model = tfdml.methods.Single(tfdml.registry.create("backbone", "resnet18"), embedding_size=DIM)
    images = tf.constant(np.random.default_rng(0).uniform(-2.0, 2.5, (batch, 224, 224, 3)), tf.float32)
    targets = {"label": tf.range(batch)}
    model(images[:1])
    model.compile(keras.optimizers.Adam(1e-4), loss=tfdml.registry.create("loss", "proxy_n_pair", classes=batch))
    model.optimizer.build(model.trainable_variables)
    step = tf.function(lambda: model.train_step((images, targets))["loss"], autograph=False)
    embed = tf.function(lambda: model(images, training=False), autograph=False)
    return tuple(BATCH / batch * fastest(each, rounds) for each in (step, embed))


def solve(count, rounds):
    layer = tfdml.layers.ManifoldProxies(count, view=tfdml.losses.ContextualManifold.view, trainable=False)
    layer.build((None, DIM))
    return fastest(with_gradient(layer, features(BATCH)), rounds)


def loss(count, rounds):
    labels, similarities = np.arange(BATCH) % count, np.random.default_rng(0).random((BATCH, count), np.float32)
    return fastest(
        with_gradient(lambda given: tfdml.losses.ContextualManifold().call(labels, given), similarities), rounds
    )


def proxies(images, count, steps, rounds):
    rows, meta_classes = features(images), np.arange(images) % count
    starts = rows[:count].astype(np.float64)
    return steps * fastest(lambda: objective(starts, rows, meta_classes, np.arange(count)), 5 * rounds)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, nargs="+", default=[5_000, 20_000, 100_000])
    parser.add_argument("--meta_classes", type=int, nargs="+", default=[10, 50, 200])
    parser.add_argument("--network_batch", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    step, embed = network(arguments.network_batch, arguments.rounds)
    solves = {count: solve(count, 10 * arguments.rounds) for count in arguments.meta_classes}
    losses = {count: loss(count, 10 * arguments.rounds) for count in arguments.meta_classes}
    rows = []
    for images in arguments.images:
        batches = images / BATCH
        for count in arguments.meta_classes:
            hard = proxies(images, count, tfdml.losses.ContextualManifold().proxy_steps, arguments.rounds)
            in_batches = [batches * each for each in (solves[count], losses[count], embed, step)]
            _, cores = np.transpose([hard, *in_batches])
            added = sum(cores[:-1]) / cores[-1]
            rows.append([f"{images:,}", str(count), *(f"{each:.3g}" for each in cores), f"{100 * added:.1f} %"])
    print(markdown(HEADS, rows))
    for count in arguments.meta_classes:
        clock, cores = 100 * solves[count] / step
        print(
            f"K = {count}: the solve is {cores:.2f} % of the network's step of all cores, {clock:.2f} % by the clock."
        )


if __name__ == "__main__":
    main()
