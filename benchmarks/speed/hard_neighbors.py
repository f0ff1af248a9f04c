"""Compares a search for hard negatives with a product of all embeddings: `python -m benchmarks.speed.hard_neighbors`.

Both use the same number of threads, and the product is computed in the same blocks as in the search. The time to embed
the images is not included.
"""

import argparse
import time

import numpy as np

from benchmarks.speed.peak_memory import MIB, peak, reset_peak
from tfdml.neighbors.nearest import nearest_negatives

MEMORY = 2**27


def measured(function):
    """Returns the wall time of a function and the time of all cores, in seconds."""
    began, cores = time.perf_counter(), time.process_time()
    function()
    return time.perf_counter() - began, time.process_time() - cores


def product(embeddings):
    size = MEMORY // (4 * len(embeddings))
    out = np.empty((size, len(embeddings)), np.float32)
    for first in range(0, len(embeddings), size):
        block = embeddings[first : first + size]
        np.matmul(block, embeddings.T, out=out[: len(block)])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--dim", type=int, default=512)
    parser.add_argument("--classes", type=int, default=10_000)
    parser.add_argument("--neighbors", type=int, default=10)
    arguments = parser.parse_args()
    random = np.random.default_rng(0)
    embeddings = random.standard_normal((arguments.rows, arguments.dim), np.float32)
    labels = random.integers(0, arguments.classes, arguments.rows)
    before = reset_peak()
    search = measured(lambda: nearest_negatives(embeddings, labels, arguments.neighbors, memory=MEMORY))
    more = (peak() - before) / MIB
    alone = measured(lambda: product(embeddings))
    for name, (clock, cores) in (("product", alone), ("search", search)):
        print(f"{name:8} {clock:8.1f} s, {cores:8.1f} s on all cores")
    wall, cpu = search[0] / alone[0], search[1] / alone[1]
    print(f"The search takes {wall:.2f} times the wall time and {cpu:.2f} times the CPU time of the product.")
    print(f"Peak memory of the search: {more:.0f} MiB, plus {embeddings.nbytes / MIB:.0f} MiB of embeddings.")


if __name__ == "__main__":
    main()
