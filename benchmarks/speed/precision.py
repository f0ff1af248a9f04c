"""Compares half precision with float32: `python -m benchmarks.speed.precision`.

It measures training steps and embeddings of the quickstart's model and of ResNet-50, in turn in one process. The
command prints a Markdown table with images per second of both, and the ratio of bfloat16 to float32 (the median over
rounds).
"""

import argparse
import statistics
import time

import keras
import numpy as np
import tensorflow as tf

import tfdml
from benchmarks.markdown import markdown

# Backbone, side length of the images and batch size of each row.
CASES = {
    "`small(width=16)`, 48 pixels": ("small(width=16)", 48, 128),
    "`resnet50`, 224 pixels": ("resnet50", 224, 16),
}


def work_of(precision, backbone, size, batch):
    """Returns functions that process a batch in training and in inference."""
    keras.config.set_dtype_policy(precision)
    model = tfdml.Single(tfdml.registry.create("backbone", backbone), embedding_size=128)
    images = tf.constant(np.random.default_rng(0).normal(size=(batch, size, size, 3)), tf.float32)
    targets = {"label": tf.constant(np.arange(batch) // 4)}
    model(images[:1])
    model.compile(keras.optimizers.Adam(1e-4), loss="triplet(margin=0.2)")
    model.optimizer.build(model.trainable_variables)
    train = tf.function(lambda: model.train_step((images, targets))["loss"], autograph=False)
    infer = tf.function(lambda: tf.reduce_sum(model(images, training=False)), autograph=False)
    return {"training": lambda: float(train()), "inference": lambda: float(infer())}


def seconds(work):
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10)
    arguments = parser.parse_args()
    rows = []
    for name, (backbone, size, batch) in CASES.items():
        half, full = (work_of(each, backbone, size, batch) for each in ("mixed_bfloat16", "float32"))
        cells = []
        for kind in half:
            for work in (half[kind], full[kind]):
                work()
            rounds = [(seconds(half[kind]), seconds(full[kind])) for _ in range(arguments.rounds)]
            ratio = statistics.median(theirs / ours for ours, theirs in rounds)
            ours, theirs = (batch / statistics.median(times) for times in zip(*rounds, strict=True))
            cells.append(f"{ratio:.2f} ({ours:.1f} : {theirs:.1f})")
        rows.append([name, *cells])
    print(markdown(["Model", "Training", "Inference"], rows))


if __name__ == "__main__":
    main()
