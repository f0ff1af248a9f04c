"""Evaluates embeddings with one library for `evaluation`: reads a JSON question per line and prints an answer."""

import contextlib
import json
import sys
import time

import numpy as np

from benchmarks.speed.peak_memory import peak, reset_peak

OURS = (*(f"recall_at_{k}" for k in (1, 10, 100, 1000)), "r_precision", "map_at_r", "map")
# Metrics of both. Without Recall@K for other K, and without mAP, which needs a list of all neighbors.
THEIRS = {"precision_at_1": "recall_at_1", "r_precision": "r_precision", "mean_average_precision_at_r": "map_at_r"}
BLOCK = 512


def embeddings_of(rows, dim, noise):
    """Returns float32 embeddings with noise, in classes of the mean size in SOP."""
    random = np.random.default_rng(0)
    classes = rows * 11_316 // 60_502
    labels = np.sort(random.integers(0, classes, rows))
    centers = random.normal(size=(classes, dim)).astype(np.float32)
    return centers[labels] + noise * random.normal(size=(rows, dim)).astype(np.float32), labels


def product(embeddings, labels):
    """Computes only the float32 similarities of all pairs, in blocks: the minimum for exact evaluation."""
    unit = embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True)
    space = np.empty((BLOCK, len(unit)), np.float32)
    for start in range(0, len(unit), BLOCK):
        block = unit[start : start + BLOCK]
        np.matmul(block, unit.T, out=space[: len(block)])
    return {}


def tfdml_all(embeddings, labels):
    from tfdml.evaluation.evaluate import evaluate

    return evaluate(embeddings, labels, OURS)


def tfdml_recall(embeddings, labels):
    from tfdml.evaluation.evaluate import evaluate

    return evaluate(embeddings, labels, OURS[:4])


def tfdml_nearest(embeddings, labels):
    """Measures the metrics that depend on the nearest images only, for which half precision helps."""
    from tfdml.evaluation.evaluate import evaluate

    return evaluate(embeddings, labels, OURS[:6])


def pytorch_metric_learning(embeddings, labels):
    import torch
    from pytorch_metric_learning.utils.accuracy_calculator import AccuracyCalculator

    calculator = AccuracyCalculator(include=tuple(THEIRS), k="max_bin_count", device=torch.device("cpu"))
    unit = torch.nn.functional.normalize(torch.tensor(embeddings))
    found = calculator.get_accuracy(unit, torch.tensor(labels))
    return {ours: float(found[theirs]) for theirs, ours in THEIRS.items()}


def tfdml_nmi(embeddings, labels):
    from tfdml.evaluation.evaluate import evaluate

    return evaluate(embeddings, labels, "nmi")


def faiss_kmeans(embeddings, labels):
    """Runs only K-means, with the same number of clusters and iterations as NMI."""
    import faiss

    unit = embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True)
    points = {"max_points_per_centroid": len(unit), "min_points_per_centroid": 1}
    search = faiss.Kmeans(unit.shape[1], len(np.unique(labels)), niter=50, seed=0, **points)
    search.train(unit)
    search.index.search(unit, 1)
    return {}


LIBRARIES = {
    "product": product,
    "tfdml": tfdml_all,
    "tfdml, without mAP": tfdml_nearest,
    "tfdml, Recall@K": tfdml_recall,
    "pytorch-metric-learning": pytorch_metric_learning,
    "tfdml, NMI": tfdml_nmi,
    "faiss K-means": faiss_kmeans,
}
# Only measured on request, because K-means with as many clusters as SOP has classes takes far longer than the others.
CLUSTERING = ("tfdml, NMI", "faiss K-means")


def main(library):
    evaluate = LIBRARIES[library]
    # Imports, threads and first allocations do not count.
    evaluate(*embeddings_of(300, 8, 1.0))
    for line in sys.stdin:
        embeddings, labels = embeddings_of(**json.loads(line))
        before, began, worked = reset_peak(), time.perf_counter(), time.process_time()
        # Lines about the progress are not answers.
        with contextlib.redirect_stdout(sys.stderr):
            values = evaluate(embeddings, labels)
        seconds, cpu_seconds = time.perf_counter() - began, time.process_time() - worked
        answer = {"seconds": seconds, "cpu_seconds": cpu_seconds, "bytes": peak() - before, "values": values}
        print(json.dumps(answer), flush=True)
