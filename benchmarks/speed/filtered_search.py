"""Measures recall and time of searches with filters: `python -m benchmarks.speed.filtered_search`.

Rows have 64 dimensions, are L2-normalized and lie around 1,000 centers. Queries are rows with added noise. A random
number of each row decides whether a filter for 50%, 1% or 0.1% of the rows selects it. Recall is the share of the 10
nearest matching rows that is found, compared with an exact search. Times are CPU times of all threads. The command
prints a Markdown table.
"""

import argparse
import time

import faiss
import numpy as np

from benchmarks.markdown import markdown
from tfdml.serving.index.folder import index_of_kind
from tfdml.serving.index.stores.folder_store import Selection

DIM, CENTERS, NEIGHBORS = 64, 1000, 10
SHARES = (1, 0.5, 0.01, 0.001)
KINDS = ("flat", "ivf", "hnsw", "pq", "pq(rescore=4)", "int8", "binary")


def rows_of(count, seed, noise=0.8):
    random = np.random.default_rng(seed)
    centers = np.random.default_rng(0).normal(size=(CENTERS, DIM))
    found = centers[random.integers(0, CENTERS, count)] + noise * random.normal(size=(count, DIM))
    return np.float32(found / np.linalg.norm(found, axis=1, keepdims=True))


def measured(index, vectors, queries, share):
    """Returns the recall, the milliseconds per query, and whether the search compared all matching rows."""
    chosen = Selection.of(np.random.default_rng(2).random(len(vectors)) < share)
    products = queries @ vectors.T
    if chosen.mask is not None:
        products[:, ~chosen.mask] = -np.inf
    best = np.argpartition(-products, NEIGHBORS, axis=1)[:, :NEIGHBORS]
    start = time.process_time()
    rows = chosen.search(index, queries, NEIGHBORS)[1]
    spent = (time.process_time() - start) / len(queries)
    recall = np.mean([len(set(one) & set(other)) / NEIGHBORS for one, other in zip(rows, best, strict=True)])
    return [f"{recall:.3f}", f"{1000 * spent:.2f}", "yes" if chosen.is_exact(index, NEIGHBORS) else "no"]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--queries", type=int, default=500)
    given = parser.parse_args()
    vectors, queries = rows_of(given.rows, 1), rows_of(given.queries, 3)

    def sample(count):
        return vectors[np.random.default_rng(0).choice(len(vectors), min(count, len(vectors)), replace=False)]

    table = []
    for kind in KINDS:
        index = index_of_kind(kind).of_size(len(vectors)).create(DIM, faiss.METRIC_INNER_PRODUCT, sample)
        index.add(vectors)
        table += [[kind, f"{share:.1%}", *measured(index, vectors, queries, share)] for share in SHARES]
    print(markdown(["Index", "Matching rows", "Recall", "CPU ms per query", "Exact"], table))


if __name__ == "__main__":
    main()
