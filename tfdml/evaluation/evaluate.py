"""`evaluate` computes metrics of embeddings and labels, in one pass for each kind of metric."""

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from tfdml import registry
from tfdml.evaluation.metrics import ClusterMetric, EmbeddingMetric, PairMetric, RankMetric, metrics_of
from tfdml.evaluation.metrics.graded import grades_of_nearest
from tfdml.evaluation.queries import PooledQueries, RetrievalTask
from tfdml.evaluation.ranks.ranks import depths_of, positive_ranks
from tfdml.evaluation.scores import Scores
from tfdml.evaluation.verification.pairs import RetrievalPairs
from tfdml.neighbors.clustering import check_finite, kmeans
from tfdml.neighbors.nearest import unit_length
from tfdml.registry.arguments import Distance, Embeddings, Labels, Rows
from tfdml.runtime.workers import ALONE

DISTANCES = ("cosine", "euclidean")


def measure(embeddings, task, metrics, *, distance="cosine", reranking=None, index=None, seed=0, workers=ALONE):
    """Computes metrics, a list of `Metric`, of a `RetrievalTask` among the rows of embeddings `[N, d]`.

    A `Reranking` or an `Index` is for metrics of ranks; without both, ranks are exact and by similarity. The seed
    determines the initial centroids of K-means. All `Workers` that measure together call this with the same arguments,
    and get the same `Scores`.
    """
    if distance not in DISTANCES:
        raise ValueError(f"Expected distance {' or '.join(map(repr, DISTANCES))}, received {distance!r}.")
    embeddings = np.asanyarray(embeddings)
    if embeddings.dtype.name == "bfloat16":
        embeddings = embeddings.astype(np.float32)
    task.check(embeddings)
    rows = np.union1d(task.queries, task.gallery)
    if not len(rows):
        raise ValueError(f"None of {len(embeddings)} rows is a query or in the gallery. Check their columns.")
    queries, per_query, report = None, {}, None
    if rank_metrics := _of(RankMetric, metrics):
        queries, per_query, report = _over_queries(embeddings, task, rank_metrics, distance, reranking, index, workers)
    labels, values = task.labels[rows], {name: float(np.mean(each)) for name, each in per_query.items()}
    if pair_metrics := _of(PairMetric, metrics):
        pairs = pairs_of_task(embeddings, task, distance)
        values |= {metric.name: metric.value_of_pairs(pairs) for metric in pair_metrics}
    if _of((ClusterMetric, EmbeddingMetric), metrics):
        check_finite(embeddings)
        points, known = np.asarray(embeddings[rows], np.float32), {}
        points = points if distance == "euclidean" else unit_length(points)
        values |= {metric.name: metric.value_if_new(known, points, labels) for metric in _of(EmbeddingMetric, metrics)}
        if cluster_metrics := _of(ClusterMetric, metrics):
            # A collapsed embedding has fewer points than classes; it gets a cluster for each.
            options = {"seed": seed, "at_most": True}
            # Others could find other clusters on another kind of processor.
            (clusters,) = workers.from_first(lambda: kmeans(points, len(np.unique(labels)), **options)[:1])
            values |= {metric.name: metric.value(labels, clusters) for metric in cluster_metrics}
    count = None if queries is None else len(queries)
    return Scores({metric.name: values[metric.name] for metric in metrics}, queries, per_query, count, report)


def pairs_of_task(embeddings, task, distance):
    """Returns the `RetrievalPairs` of a task, of pooled queries where it pools them."""
    if task.pooling:
        pooled = PooledQueries.of(embeddings, task, distance)
        embeddings, task = pooled.embeddings, pooled.task
    return RetrievalPairs.of(embeddings, task, distance)


def _over_queries(embeddings, task, metrics, distance, reranking, index, workers):
    """Returns the queries, ascending, the value of each metric for each query, and the `IndexReport` or None."""
    pooled = PooledQueries.of(embeddings, task, distance) if task.pooling else None
    if pooled:
        embeddings, task = pooled.embeddings, pooled.task
    indexed = None if index is None else index.searched(embeddings, task, metrics, distance)
    # Only exact ranks are the same whichever queries are counted together.
    if indexed is not None:
        found = _values(metrics, indexed.ranks)
    elif reranking is not None:
        found = _values(metrics, functools.partial(reranking.ranks, embeddings, task))
    else:
        options = {"distance": distance, "share": workers.share, "depths": depths_of(metrics)}
        ranks_of = functools.partial(positive_ranks, embeddings, task, **options)
        found = workers.gather(lambda: _values(metrics, ranks_of))
    queries, *values = found
    if not len(queries):
        raise ValueError(
            f"{metrics[0].name} needs a query with another image of its class in the gallery; no query has one. "
            "Check labels, and which rows are queries and gallery."
        )
    order = np.argsort(queries)
    per_query = {metric.name: of_queries[order] for metric, of_queries in zip(metrics, values, strict=True)}
    queries = queries[order]
    if pooled:
        # Pooled queries are behind the images; each stands for the row of its first image.
        queries = pooled.first[queries - task.queries[0]]
    return queries, per_query, None if indexed is None else indexed.report()


def _values(metrics, ranks_of):
    """Returns a tuple: the queries, and for each metric its values for them."""
    first_only = all(metric.first_only for metric in metrics)
    rows, values = [np.zeros(0, np.int64)], [[np.zeros(0)] for _ in metrics]
    for ranks in ranks_of(first_only=first_only):
        rows.append(ranks.rows)
        for metric, of_blocks in zip(metrics, values, strict=True):
            of_blocks.append(np.asarray(metric.per_query(ranks), float))
    return tuple(map(np.concatenate, (rows, *values)))


def _of(kind, metrics):
    return [metric for metric in metrics if isinstance(metric, kind)]


METRICS = ("recall_at_1", "recall_at_2", "recall_at_4", "recall_at_8")


def evaluate(
    embeddings: Embeddings,
    labels: Labels,
    metrics: str | Sequence[str] = METRICS,
    *,
    queries: Rows | None = None,
    gallery: Rows | None = None,
    apart: Sequence[Labels] = (),
    distance: Distance = "cosine",
    index: str = "exact",
    seed: int = 0,
) -> dict[str, Any]:
    """Computes metrics of queries in a gallery; by default, of every image among all others.

    A query is excluded from its own neighbors by row. Images of other classes that are as similar as one of the query's
    class rank before it, so a collapsed embedding scores near 0. Queries whose class has no other image in the gallery
    are left out.

    Example: `evaluate(embeddings, labels, ("recall_at_1", "map_at_r", "nmi"))`.

    Args:
        embeddings: `[N, d]` array, finite.
        labels: `[N]` class numbers.
        metrics: tuple of metric specs, or one spec.
        queries: `[N]` booleans, the rows that are queries; None for all.
        gallery: `[N]` booleans, the rows that are in the gallery; None for all.
        apart: arrays `[N]` of integers, such as cameras. A gallery image of the query's class counts neither as found
            nor as missed if it equals the query in any of them.
        distance: `cosine` or `euclidean`.
        index: spec of an index, such as `ivf`, that finds the nearest images of large galleries approximately.
        seed: determines the initial centroids of K-means.

    Returns:
        `{"recall_at_1": fraction, ..., "queries": number of queries}`; with an approximate index also `index_recall`
        and `index_short_lists`.
    """
    task = RetrievalTask.of(labels, queries=queries, gallery=gallery, apart=apart)
    index = registry.create("index", index)
    return measure(embeddings, task, metrics_of(metrics), distance=distance, index=index, seed=seed).summary()


# How many times as large as the smallest class the largest one is, from which sizes are told apart.
DIFFERENT = 2


def by_class_size(scores, labels):
    """Returns the means over queries of the third of the classes with the most images, of the middle, and of the rest.

    The result is `{"head": {"classes": ..., "images": ..., metric: mean, ...}, "middle": ..., "tail": ...}`, without
    parts that have no query. It is empty where classes are of similar sizes, or no metric is a mean over queries.
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

    Embeddings are compared by Euclidean distance; a hierarchy `[N, L]` is from coarse to fine. Returns `{finest level:
    share, ..., coarsest level: share, "none": share}`, which sum to 1: each image counts at the finest level that both
    share.
    """
    shared = grades_of_nearest(embeddings, hierarchy, 1)[:, 0]
    shares = np.bincount(shared, minlength=len(names) + 1) / len(shared)
    return dict(zip([*reversed(names), "none"], shares[::-1].tolist(), strict=True))


def breakdown(scores, embeddings, rows, distance):
    """Returns what a run's result has beside its scores: `by_class_size`, and `nearest` of a split with levels."""
    sizes = by_class_size(scores, rows.labels)
    found = {"by_class_size": sizes} if sizes else {}
    if rows.hierarchy is not None and len(rows.labels) > 1:
        compared = embeddings if distance == "euclidean" else unit_length(embeddings)
        found["nearest"] = nearest_shares(compared, rows.hierarchy, rows.level_names)
    return found


def fuse(members, weights=None):
    """Joins the embeddings of the members of an ensemble: `s(x, y) = sum_e alpha_e s(x_e, y_e)`, (1) of EDMS.

    Members are arrays `[N, d]`, which may differ in d; each is brought to unit length. Weights `alpha` are numbers of 0
    or more, the sum of which changes nothing; None: 1 for all.

    Returns `[N, E * d]` at unit length: `sqrt(alpha_e) x_e` side by side, members of fewer dimensions than the largest
    with zeros at their end. Cosines of its rows are the similarity, divided by the sum of the weights.
    """
    weights = np.ones(len(members)) if weights is None else np.asarray(weights, float)
    size = max(member.shape[1] for member in members)
    scales = np.sqrt(weights / weights.sum()).astype(np.float32)
    padded = (np.pad(unit_length(member), ((0, 0), (0, size - member.shape[1]))) for member in members)
    return np.concatenate([scale * each for scale, each in zip(scales, padded, strict=True)], axis=1)


def fit_weights(members, measure):
    """Fits the weights of (1), integers of 0 or more, by ensemble selection with replacement.

    Caruana et al., Ensemble Selection from Libraries of Models, ICML 2004: from an empty selection, the member that
    brings the best measure joins it, again and again, and may join several times; a member's weight is how often it was
    selected. 2 E members join, and the selection counts that was the best on the way, if it is better than all weights
    1. Of equal ones the first counts, so nothing is random. The measure, a function of embeddings `[N, D]` that is
    larger for better ones, is taken 2 E^2 times. No member should have been trained on these rows.
    """
    count = len(members)
    equal = best = np.ones(count, int)
    best_value = measure(fuse(members, equal))
    selected = np.zeros(count, int)
    for _ in range(2 * count):
        more = [selected + one for one in np.eye(count, dtype=int)]
        values = []
        for weights in more:
            chosen = np.flatnonzero(weights)
            values.append(measure(fuse([members[place] for place in chosen], weights[chosen])))
        selected = more[int(np.argmax(values))]
        if max(values) > best_value:
            best, best_value = selected, max(values)
    return best
