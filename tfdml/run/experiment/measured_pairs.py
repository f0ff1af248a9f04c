"""Measures decisions about the pairs of a file, as of LFW's protocol."""

from pathlib import Path

import numpy as np

from tfdml import registry
from tfdml.evaluation.metrics import PairMetric, metrics_of
from tfdml.evaluation.ranks.exact_vectors import ExactVectors
from tfdml.evaluation.verification.pair_list import PairList, given_similarities, named_embeddings
from tfdml.evaluation.verification.thresholds import verified

METRICS = ("roc_auc", "equal_error_rate", "tar_at_far_0.1", "tar_at_far_0.01", "tar_at_far_0.001")


def verified_pairs(file, metrics=(), *, embeddings="", folder="", make_embedder=None, modules=()):
    """Returns what decisions by cosine similarity about the pairs of a file are worth.

    Args:
        file: path of the pairs.
        metrics: specs of metrics of pairs; empty: those of `METRICS` that so many pairs have.
        embeddings: path of embeddings with names; empty: those of images.
        folder: folder of the images; empty: the working directory.
        make_embedder: function without arguments that returns an `ImageEmbedder` or `ExportedModel` for images.
        modules: the user's modules that register parts of its model.
    """
    chosen = metrics_of(tuple(metrics) or METRICS)
    others = [metric.name for metric in chosen if not (isinstance(metric, PairMetric) and metric.of_counts)]
    if others:
        raise ValueError(f"--pairs measures decisions about pairs, such as roc_auc; received {', '.join(others)}.")
    pairs = PairList.read(file)
    if embeddings:
        vectors, known = named_embeddings(embeddings)
        rows = pairs.rows(known, embeddings)
    else:
        there = {name: row for row, name in enumerate(pairs.names) if Path(folder, name).is_file()}
        rows = pairs.rows(there, folder or "the working directory")
        registry.import_modules(modules)
        vectors = _embedded(make_embedder(), [Path(folder, name) for name in pairs.names])
    rows, places = np.unique(rows, return_inverse=True)
    scores = given_similarities(ExactVectors.of(vectors[rows]), *places.reshape(2, -1))
    if not metrics:
        different = int(np.sum(~pairs.same))
        chosen = [metric for metric in chosen if metric.negatives_needed <= different]
    return verified(scores, pairs.same, pairs.folds, chosen)


def _embedded(embedder, paths):
    # Here, because it imports TensorFlow, which embeddings of files do without.
    from pipelines.reading.sources import split_of

    return embedder.embed_split(split_of(paths))
