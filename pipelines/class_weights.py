"""Weights of images in the loss, by the sizes of their classes."""

import numpy as np
import tensorflow as tf


def class_weights(split, power):
    """Returns `[C]` weights of classes with n images, in proportion to `n^-power`, whose mean over images is 1.

    Args:
        split: `pipelines.datasets.Split` to train on.
        power: 0: all images count alike; 1: all classes do, where images are drawn alike.
    """
    labels = split.labels if split.hierarchy is None else split.hierarchy[:, -1]
    sizes = np.bincount(labels)
    weights = np.where(sizes > 0, np.maximum(sizes, 1.0) ** -power, 0.0)
    return (weights / weights[labels].mean()).astype(np.float32)


def weighted(batches, weights):
    """Returns batches `(images, labels, weights [B])`, as Keras' `fit` takes them.

    Args:
        batches: dataset of `(images, labels)`, as `training_batches` makes them.
        weights: `[C]`, what `class_weights` returns.
    """
    table = tf.constant(weights)

    def with_weights(images, target):
        classes = target["label"] if isinstance(target, dict) else target
        return images, target, tf.gather(table, classes if classes.shape.rank == 1 else classes[:, -1])

    return batches.map(tf.autograph.experimental.do_not_convert(with_weights))
