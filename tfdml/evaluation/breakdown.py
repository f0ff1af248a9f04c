"""Scores by the size of classes, and mistakes by their severity."""

import numpy as np

from tfdml.evaluation.metrics.graded_relevance import grades_of_nearest
from tfdml.neighbors.nearest import unit_length

# How many times as large as the smallest class the largest one is, from which sizes are told apart.
DIFFERENT = 2


def by_class_size(scores, labels):
    """Returns the means over queries of the third of the classes with the most images, of the middle, and of the rest.

    Args:
        scores: `Scores` of an embedding.
        labels: `[N]` class number of each row.

    Returns:
        `{"head": {"classes": ..., "images": ..., metric: mean, ...}, "middle": ..., "tail": ...}`, without parts that
        have no query; nothing where classes are of similar sizes, or no metric is a mean over queries.
    """
    classes, numbers, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    if scores.queries is None or sizes.max() < DIFFERENT * sizes.min():
        return {}
    low, high = np.quantile(sizes, [1 / 3, 2 / 3], method="higher")
    parts = {"head": sizes > high, "middle": (sizes > low) & (sizes <= high), "tail": sizes <= low}
    found = {}
    for name, part in parts.items():
        queries = part[numbers[scores.queries]]
        if queries.any():
            counts = {"classes": int(part.sum()), "images": int(sizes[part].sum())}
            found[name] = counts | {each: float(np.mean(of[queries])) for each, of in scores.per_query.items()}
    return found


def nearest_shares(embeddings, hierarchy, names):
    """Returns the shares of images whose nearest other image is of the same category, by the finest level.

    Args:
        embeddings: `[N, d]` array, compared by Euclidean distance.
        hierarchy: `[N, L]` categories from coarse to fine.
        names: names of the levels.

    Returns:
        `{finest level: share, ..., coarsest level: share, "none": share}`, which sum to 1: each image counts at the
        finest level that both share.
    """
    shared = grades_of_nearest(embeddings, hierarchy, 1)[:, 0]
    shares = np.bincount(shared, minlength=len(names) + 1) / len(shared)
    return dict(zip([*reversed(names), "none"], shares[::-1].tolist(), strict=True))


def breakdown(scores, embeddings, rows, distance):
    """Returns what the result of a run says beside its scores: `by_class_size`, and `nearest` where there are levels.

    Args:
        scores: `Scores` of the embeddings.
        embeddings: `[N, d]` array.
        rows: a `Split`, or its columns.
        distance: `cosine` or `euclidean`, the protocol's.
    """
    sizes = by_class_size(scores, rows.labels)
    found = {"by_class_size": sizes} if sizes else {}
    if rows.hierarchy is not None and len(rows.labels) > 1:
        compared = embeddings if distance == "euclidean" else unit_length(embeddings)
        found["nearest"] = nearest_shares(compared, rows.hierarchy, rows.level_names)
    return found
