"""Cuts a list of neighbors where their similarities fall most."""

import numpy as np

from tfdml.serving.index.found import Found

# Smallest similarity of a copy of the query: a distance of 0.001.
COPIES = {"cosine": 1 - 1e-3**2 / 2, "euclidean": -1e-3}


def kept(similarities, metric="cosine"):
    """Returns how many neighbors come before the largest fall of similarity from one to the next.

    Copies of the query are kept, and the fall after them does not count: it would hide that to the end of its class.

    Args:
        similarities: `[K + 1]`, descending: those of K neighbors and of the next one; without it if there are no more.
        metric: of the similarities, `cosine` or `euclidean`.
    """
    similarities = np.asarray(similarities, float)
    copies = int(np.sum(similarities >= COPIES[metric]))
    falls = -np.diff(similarities[copies:])
    # Of equal falls the first.
    return copies + 1 + int(np.argmax(falls)) if len(falls) else len(similarities)


def adaptive_search(searcher, queries, k, where=None):
    """Returns what `searcher.search` finds, with each list cut where the similarities fall most.

    Args:
        searcher: `Searcher`.
        queries, k, where: as `Searcher.search` takes them.
    """
    found, metric = searcher.search(queries, k + 1, where), searcher.manifest["metric"]
    lists = [each[: min(k, kept([neighbor.similarity for neighbor in each], metric))] for each in found]
    return Found(lists, found.matching, found.exact)
