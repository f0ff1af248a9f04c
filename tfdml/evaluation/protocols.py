"""Protocols: which images are queries, what is searched, and what counts as found.

A protocol is made by its spec, as `query_gallery(ks=(1, 10))`, and is a function of embeddings `[N, d]` and of rows
that gives metrics. Rows are a `pipelines.datasets.Split`, or anything with its columns: `labels`, `cameras`, `groups`,
`is_query`, `is_gallery`.
"""

import numpy as np

from tfdml.arguments import either, integer, several
from tfdml.evaluation.retrieval import recall_at_k
from tfdml.registry import register

KS = (1, 2, 4, 8)
EXPECTED_KS = either(integer(1), several(integer(1)))


@register("protocol", "self_retrieval", ks=EXPECTED_KS)
def self_retrieval(ks=KS):
    """Every image is a query that is searched among all others (CUB, Cars, SOP).

    Args:
        ks: the K of Recall@K, 1 among them.
    """
    ks = _checked(ks)

    def measure(embeddings, rows):
        return recall_at_k(embeddings, rows.labels, ks)

    return measure


@register("protocol", "query_gallery", ks=EXPECTED_KS)
def query_gallery(ks=KS):
    """Queries are searched in a gallery; what shares class and camera, or class and group, does not count.

    Rows that are not marked as queries or gallery are searched all against all, as classes held out for validation are.

    Args:
        ks: the K of Recall@K, 1 among them.
    """
    ks = _checked(ks)

    def measure(embeddings, rows):
        apart = [column for column in (rows.cameras, rows.groups) if column is not None]
        return recall_at_k(embeddings, rows.labels, ks, queries=rows.is_query, gallery=rows.is_gallery, apart=apart)

    return measure


@register("protocol", "random_gallery", draws=integer(1), seed=integer(0), ks=EXPECTED_KS)
def random_gallery(draws=10, seed=0, ks=KS):
    """One random image of each class is searched for by all others; the mean of several draws (VehicleID).

    Args:
        draws: how often the gallery is drawn.
        seed: decides the galleries.
        ks: the K of Recall@K, 1 among them.
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
    """Booleans `[N]` that mark one random row of each class."""
    order = random.permutation(len(labels))
    _, first = np.unique(np.asarray(labels)[order], return_index=True)
    chosen = np.zeros(len(labels), bool)
    chosen[order[first]] = True
    return chosen


def _checked(ks):
    ks = (ks,) if isinstance(ks, int) else ks
    if 1 not in ks:
        raise ValueError(f"Expected ks with 1 among them, because Recall@1 chooses the best model; received {ks}.")
    return ks
