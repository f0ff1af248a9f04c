"""Measures exact evaluation of difficult embeddings: `python -m benchmarks.speed.evaluation_cases`.

The cases are collapsed embeddings, duplicates, outliers and few classes, as ratios to good embeddings of the same size.
It measures CPU time, each case in its own process. BLAS uses one thread, because waiting threads would count.
"""

import argparse
import multiprocessing
import os
import time

import numpy as np

from benchmarks.speed.peak_memory import MIB, peak, reset_peak

# Images per class, unless a case has its own classes.
IMAGES = 5


def good(rows, dim, classes):
    """Returns embeddings around the centers of classes, and labels."""
    random = np.random.default_rng(0)
    labels = np.sort(random.integers(0, classes, rows))
    return random.normal(size=(classes, dim))[labels] + 2.0 * random.normal(size=(rows, dim)), labels


def two_points(embeddings):
    first = np.random.default_rng(1).random((len(embeddings), 1)) < 0.5
    return 5 * np.where(first, embeddings[0], embeddings[1]) + 1e-3 * embeddings


def with_zeros(embeddings):
    return embeddings * (np.random.default_rng(1).random((len(embeddings), 1)) > 0.25)


def with_outlier(embeddings):
    return embeddings * np.where(np.arange(len(embeddings)) == 7, 300, 1)[:, None]


# Each case has a function of good embeddings, a number of classes or None, and a distance.
CASES = {
    "good": (lambda each: each, None, "cosine"),
    "spread of 1e-1": (lambda each: 1 + 1e-1 * each, None, "cosine"),
    "spread of 1e-2": (lambda each: 1 + 1e-2 * each, None, "cosine"),
    "spread of 1e-3": (lambda each: 1 + 1e-3 * each, None, "cosine"),
    "spread of 1e-4": (lambda each: 1 + 1e-4 * each, None, "cosine"),
    "one point": (np.ones_like, None, "cosine"),
    "two points": (two_points, None, "cosine"),
    "20 points": (lambda each: each[np.random.default_rng(1).integers(0, 20, len(each))], None, "cosine"),
    "a quarter of zeros": (with_zeros, None, "cosine"),
    "signs": (np.sign, None, "cosine"),
    "100 classes": (lambda each: each, 100, "cosine"),
    "10 classes": (lambda each: each, 10, "cosine"),
    "2 classes": (lambda each: each, 2, "cosine"),
    "1 class": (lambda each: each, 1, "cosine"),
    "good, Euclidean": (lambda each: each, None, "euclidean"),
    "offset of 300": (lambda each: 300 + each, None, "euclidean"),
    "an outlier": (with_outlier, None, "euclidean"),
    "two points, Euclidean": (two_points, None, "euclidean"),
}


def measured(case, rows, dim, metrics):
    """Returns the CPU seconds, the bytes in addition to the embeddings, and the values of a case."""
    from tfdml.evaluation.evaluate import evaluate

    change, classes, distance = CASES[case]
    embeddings, labels = good(rows, dim, classes or max(rows // IMAGES, 1))
    embeddings = change(embeddings).astype(np.float32)
    # Imports, threads and first allocations do not count.
    evaluate(*good(300, 8, 60), metrics, distance=distance)
    before, began = reset_peak(), time.process_time()
    values = evaluate(embeddings, labels, metrics, distance=distance)
    return time.process_time() - began, peak() - before, values


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[4000])
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--metrics", nargs="+", default=["recall_at_1", "map"])
    parser.add_argument("--cases", nargs="+", default=list(CASES), choices=list(CASES))
    arguments = parser.parse_args()
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    for rows in arguments.rows:
        print(f"{rows} x {arguments.dim}, {', '.join(arguments.metrics)}:")
        show(arguments, rows)


def show(arguments, rows):
    first = None
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as process:
        for case in arguments.cases:
            seconds, memory, values = process.apply(measured, (case, rows, arguments.dim, arguments.metrics))
            first = first or (seconds, memory)
            ratios = f"{seconds / first[0]:5.2f} x  {memory / MIB:6.0f} MiB {memory / first[1]:5.2f} x"
            shown = ", ".join(f"{name} {value:.4f}" for name, value in values.items() if name != "queries")
            print(f"  {case:22} {seconds:7.2f} s {ratios}  {shown}", flush=True)


if __name__ == "__main__":
    main()
