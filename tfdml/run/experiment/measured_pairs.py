"""Measures decisions about the pairs of a file, as of LFW's protocol."""

import json
from pathlib import Path

import numpy as np

from tfdml.console import command
from tfdml.evaluation.metrics import PairMetric, metrics_of
from tfdml.evaluation.ranks.exact_vectors import ExactVectors
from tfdml.evaluation.verification.cross_validation import verified
from tfdml.evaluation.verification.given_similarities import given_similarities
from tfdml.evaluation.verification.named_embeddings import named_embeddings
from tfdml.evaluation.verification.pair_list import PairList

METRICS = ("roc_auc", "equal_error_rate", "tar_at_far_0.1", "tar_at_far_0.01", "tar_at_far_0.001")
# Flags that say how a split is measured.
OF_SPLITS = ("dataset", "protocol", "index", "labels", "per_class", "per_query", "bootstrap")


def print_pairs(given, named, embedder):
    """Measures the pairs of a file by cosine similarity, and prints one line of JSON.

    Args:
        given: flags `pairs`, `metrics`, `data_dir`, and the one that is named.
        named: name of the flag that says what embeds: `run_dir`, `model` or `embeddings`.
        embedder: function without arguments that returns an `ImageEmbedder` or `ExportedModel`; not for embeddings.
    """
    command.refuse_unused(OF_SPLITS, "--pairs verifies pairs")
    metrics = given.metrics
    chosen = metrics_of(tuple(metrics) or METRICS)
    others = [metric.name for metric in chosen if not (isinstance(metric, PairMetric) and metric.of_counts)]
    if others:
        raise ValueError(f"--pairs measures decisions about pairs, such as roc_auc; received {', '.join(others)}.")
    pairs = PairList.read(given.pairs)
    if given.embeddings:
        embeddings, known = named_embeddings(given.embeddings)
        first, second = pairs.rows(known, given.embeddings)
    else:
        first, second = pairs.rows(_found(pairs.names, given.data_dir), given.data_dir or "the working directory")
        embeddings = _embedded(embedder(), pairs.names, given.data_dir)
    rows, places = np.unique([first, second], return_inverse=True)
    scores = given_similarities(ExactVectors.of(embeddings[rows]), *places.reshape(2, -1))
    if not metrics:
        # Only those that so many pairs have.
        different = int(np.sum(~pairs.same))
        chosen = [metric for metric in chosen if metric.negatives_needed <= different]
    about = {named: given[named].value, "pairs": given.pairs}
    print(json.dumps({**about, **verified(scores, pairs.same, pairs.folds, chosen)}))


def _found(names, folder):
    """Returns the name to row of the images that are there."""
    return {name: row for row, name in enumerate(names) if Path(folder, name).is_file()}


def _embedded(embedder, names, folder):
    # Here, because it imports TensorFlow, which embeddings of files do without.
    from pipelines.reading.given_images import split_of

    return embedder.embed_split(split_of([Path(folder, name) for name in names]))
