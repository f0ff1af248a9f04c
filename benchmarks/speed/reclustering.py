"""Measures how long it takes to cluster the data again: `python -m benchmarks.speed.reclustering`, with the extra cpu.

It runs K-means, the matching with the previous clusters and the new tables of the sampler, on embeddings in blobs. It
compares them with scikit-learn's K-means with the same number of iterations and starts, in the same run. The time to
embed the images is not included.
"""

import argparse
import resource
import statistics
import time

import numpy as np
from sklearn.cluster import KMeans

from pipelines.sampling import PxK, WithinClusters
from tfdml.neighbors.clustering import kmeans, matched


def embeddings_of(rows, dim, classes, seed):
    """Returns unit vectors `[rows, dim]` around a center for each class, and the classes."""
    random = np.random.default_rng(seed)
    labels = np.sort(random.integers(0, classes, rows))
    points = random.normal(size=(classes, dim))[labels] + random.normal(size=(rows, dim))
    return (points / np.linalg.norm(points, axis=1, keepdims=True)).astype(np.float32), labels


def seconds(function):
    began = time.perf_counter()
    result = function()
    return time.perf_counter() - began, result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--dim", type=int, default=512)
    parser.add_argument("--classes", type=int, default=10_000)
    parser.add_argument("--clusters", type=int, default=32)
    parser.add_argument("--iterations", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    embeddings, labels = embeddings_of(arguments.rows, arguments.dim, arguments.classes, seed=0)
    sampler = WithinClusters(PxK(classes=20, per_class=4))
    sampler.bind(labels)
    before, _ = kmeans(embeddings, arguments.clusters, seed=1, iterations=2)
    times = {"K-means": [], "matching": [], "tables": [], "scikit-learn's K-means": []}
    for round_number in range(arguments.rounds):
        options = {"seed": round_number, "iterations": arguments.iterations}
        took, (after, _) = seconds(lambda options=options: kmeans(embeddings, arguments.clusters, **options))
        times["K-means"].append(took)
        took, assignment = seconds(lambda after=after: matched(before, after, arguments.clusters))
        times["matching"].append(took)
        times["tables"].append(seconds(lambda assignment=assignment: sampler.assign(assignment))[0])
        if not round_number:
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        # The same number of iterations, without early stopping.
        options = {"init": "random", "n_init": 1, "max_iter": arguments.iterations, "tol": 0.0}
        other = KMeans(arguments.clusters, random_state=round_number, **options)
        times["scikit-learn's K-means"].append(seconds(lambda other=other: other.fit(embeddings))[0])
    for name, values in times.items():
        print(f"{name:24} {statistics.median(values):8.3f} s")
    ours = [sum(values) for values in zip(times["K-means"], times["matching"], times["tables"], strict=True)]
    print(f"{'together':24} {statistics.median(ours):8.3f} s")
    ratios = [other / own for own, other in zip(ours, times["scikit-learn's K-means"], strict=True)]
    print(f"scikit-learn's K-means alone takes {statistics.median(ratios):.2f} times as long.")
    print(f"Peak memory after the first round: {peak:.0f} MiB, of which embeddings {embeddings.nbytes / 2**20:.0f}.")


if __name__ == "__main__":
    main()
