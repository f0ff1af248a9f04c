"""Measures P×K sampling with 1,000,000 rows in 100,000 classes: `python -m benchmarks.speed.sampling`.

It compares it with the usual way in NumPy: a permutation of the classes, then `choice` within each. The command prints
JSON.
"""

import json
import time

import numpy as np
import tensorflow as tf

from pipelines.build import STEPS_AT_ONCE
from pipelines.sampling import PxK

ROWS, CLASSES, BATCHES = 1_000_000, 100_000, 512


def main():
    labels = np.random.default_rng(0).permutation(np.repeat(np.arange(CLASSES), ROWS // CLASSES))
    began = time.perf_counter()
    sampler = PxK(classes=32, per_class=4)
    sampler.bind(labels)
    built = time.perf_counter() - began

    tables = sampler.tables()
    rows = tf.function(lambda steps: sampler.rows(tf.constant(0, tf.int64), steps, tables))
    rows(tf.range(STEPS_AT_ONCE, dtype=tf.int64))
    began = time.perf_counter()
    for start in range(0, BATCHES, STEPS_AT_ONCE):
        rows(tf.range(start, start + STEPS_AT_ONCE, dtype=tf.int64))
    ours = (time.perf_counter() - began) / BATCHES
    theirs = _numpy_seconds(labels)
    result = {"build_seconds": built, "milliseconds_per_batch": 1000 * ours, "numpy_milliseconds": 1000 * theirs}
    print(json.dumps({name: round(value, 4) for name, value in result.items()}))


def _numpy_seconds(labels):
    """Returns the seconds for a batch of the same shape with stateful NumPy random numbers."""
    rng = np.random.default_rng(0)
    members = np.argsort(labels, kind="stable").reshape(CLASSES, -1)
    began = time.perf_counter()
    for number in range(BATCHES):
        if number % (CLASSES // 32) == 0:
            order = rng.permutation(CLASSES)
        chosen = order[number * 32 % CLASSES :][:32]
        np.stack([rng.choice(members[label], 4, replace=False) for label in chosen])
    return (time.perf_counter() - began) / BATCHES


if __name__ == "__main__":
    main()
