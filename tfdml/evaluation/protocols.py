"""Protocols: which images are queries, which are the gallery, and which count as found.

A protocol is created from its spec, such as `query_gallery(ks=(1, 10))`. It is a function of embeddings `[N, d]` and
rows that returns metrics. Rows are a `pipelines.datasets.Split`, or anything with its columns: `labels`, `cameras`,
`groups`, `is_query`, `is_gallery`.
"""

import numpy as np

from tfdml.arguments import either, integer, several
from tfdml.evaluation.retrieval import recall_at_k
from tfdml.registry import register

KS = (1, 2, 4, 8)
EXPECTED_KS = either(integer(1), several(integer(1)))


@register("protocol", "self_retrieval", ks=EXPECTED_KS)
def self_retrieval(ks=KS):
    """Searches every image among all others (CUB, Cars, SOP).

    Args:
        ks: the K of Recall@K, including 1.
    """
    ks = _checked(ks)

    def measure(embeddings, rows):
        return recall_at_k(embeddings, rows.labels, ks)

    return measure


@register("protocol", "query_gallery", ks=EXPECTED_KS)
def query_gallery(ks=KS):
    """Searches queries in a gallery, without images that share class and camera, or class and group.

    If no rows are marked as queries or gallery, as in validation splits, every row is searched among all others.

    Args:
        ks: the K of Recall@K, including 1.
    """
    ks = _checked(ks)

    def measure(embeddings, rows):
        apart = [column for column in (rows.cameras, rows.groups) if column is not None]
        return recall_at_k(embeddings, rows.labels, ks, queries=rows.is_query, gallery=rows.is_gallery, apart=apart)

    return measure


@register("protocol", "random_gallery", draws=integer(1), seed=integer(0), ks=EXPECTED_KS)
def random_gallery(draws=10, seed=0, ks=KS):
    """Searches all images in a gallery of one random image per class; the mean of several draws (VehicleID).

    Args:
        draws: number of random galleries.
        seed: determines the galleries.
        ks: the K of Recall@K, including 1.
    """
    ks = _checked(ks)

    def measure(embeddings, rows):
        results = []
        for draw in range(draws):
            gallery = one_of_each(rows.labels, np.random.default_rng([seed, draw]))
            results.append(recall_at_k(embeddings, rows.labels, ks, queries=~gallery, gallery=gallery))
        return {name: type(value)(np.mean([result[name] for result in results])) for name, value in results[0].items()}

    return measure


def one_of_each(labels, random):
    """Returns booleans `[N]` that mark one random row of each class."""
    order = random.permutation(len(labels))
    _, first = np.unique(np.asarray(labels)[order], return_index=True)
    chosen = np.zeros(len(labels), bool)
    chosen[order[first]] = True
    return chosen


def _checked(ks):
    ks = (ks,) if isinstance(ks, int) else ks
    if 1 not in ks:
        raise ValueError(f"Expected ks to include 1, because Recall@1 selects the best model; received {ks}.")
    return ks
