"""Compares steps of Divide and Conquer with a single embedding: `python -m benchmarks.speed.divided_step`.

Both have the same backbone, embedding size, loss and batches, and run in turn in one process. The command prints the
median of the ratio.
"""

import argparse
import statistics
import time

import keras
import numpy as np
import tensorflow as tf

import tfdml


def step_of(method, loss, batch, size, **arguments):
    """Returns a function that runs a training step and returns its seconds."""
    keras.utils.set_random_seed(0)
    model = method(tfdml.backbones.Small(width=16), embedding_size=128, **arguments)
    images = tf.constant(np.random.default_rng(0).normal(size=(batch, size, size, 3)), tf.float32)
    targets = {"label": tf.constant(np.arange(batch) // 4), "learner": tf.fill([batch], 1)}
    model(images[:1])
    model.compile(keras.optimizers.AdamW(1e-4), loss=tfdml.registry.create("loss", loss, classes=batch))
    model.optimizer.build(model.trainable_variables)
    step = tf.function(lambda: model.train_step((images, targets))["loss"], autograph=False)

    def seconds():
        began = time.perf_counter()
        float(step())
        return time.perf_counter() - began

    return seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--losses", default="margin,proxy_nca", help="Names, separated by commas.")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--size", type=int, default=48, help="Side length of the images in pixels.")
    parser.add_argument("--rounds", type=int, default=30)
    arguments = parser.parse_args()
    for loss in arguments.losses.split(","):
        options = {"loss": loss, "batch": arguments.batch, "size": arguments.size}
        divided, plain = (
            step_of(tfdml.methods.DivideAndConquer, learners=8, **options),
            step_of(tfdml.methods.Single, **options),
        )
        for each in (divided, plain):
            each()
        rounds = [(divided(), plain()) for _ in range(arguments.rounds)]
        ratio = statistics.median(one / other for one, other in rounds)
        ours, theirs = (1000 * statistics.median(times) for times in zip(*rounds, strict=True))
        print(f"{loss}: {ratio:.2f} ({ours:.0f} : {theirs:.0f} ms)")


if __name__ == "__main__":
    main()
