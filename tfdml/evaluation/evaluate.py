"""Computes metrics of embeddings and labels, in one pass for each kind of metric."""

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
    """Computes a list of `Metric` objects for a `RetrievalTask` on the rows of embeddings `[N, d]`.

    A `Reranking` or an `Index` changes the ranks of rank metrics. Without them, ranks are exact and by similarity. The
    seed determines the initial centroids of K-means. All `Workers` that measure together call this function with the
    same arguments and receive the same `Scores`.
    """
    if distance not in DISTANCES:
        raise ValueError(f"distance must be {' or '.join(map(repr, DISTANCES))}. Received: distance={distance!r}.")
    embeddings = np.asanyarray(embeddings)
    if embeddings.dtype.name == "bfloat16":
        embeddings = embeddings.astype(np.float32)
    task.check(embeddings)
    rows = np.union1d(task.queries, task.gallery)
    if not len(rows):
        raise ValueError(
            f"None of the {len(embeddings)} rows is a query or in the gallery. Check the arrays `queries` and "
            "`gallery`, or the columns that mark them."
        )
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
            # A collapsed embedding has fewer distinct points than classes. Each of them becomes a cluster.
            options = {"seed": seed, "at_most": True}
            # Workers with a different kind of processor could find different clusters.
            (clusters,) = workers.from_first(lambda: kmeans(points, len(np.unique(labels)), **options)[:1])
            values |= {metric.name: metric.value(labels, clusters) for metric in cluster_metrics}
    count = None if queries is None else len(queries)
    return Scores({metric.name: values[metric.name] for metric in metrics}, queries, per_query, count, report)


def pairs_of_task(embeddings, task, distance):
    """Returns the `RetrievalPairs` of a task. If the task pools queries, they are pairs of pooled queries."""
    if task.pooling:
        pooled = PooledQueries.of(embeddings, task, distance)
        embeddings, task = pooled.embeddings, pooled.task
    return RetrievalPairs.of(embeddings, task, distance)


def _over_queries(embeddings, task, metrics, distance, reranking, index, workers):
    """Returns the ascending queries, the value of each metric for each query, and the `IndexReport` or None."""
    pooled = PooledQueries.of(embeddings, task, distance) if task.pooling else None
    if pooled:
        embeddings, task = pooled.embeddings, pooled.task
    indexed = None if index is None else index.searched(embeddings, task, metrics, distance)
    # Workers share only exact ranks, which do not depend on the queries that are counted together.
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
            f"{metrics[0].name} needs at least one query with another image of its class in the gallery. No query has "
            "one. Check the labels, and which rows are queries and gallery."
        )
    order = np.argsort(queries)
    per_query = {metric.name: of_queries[order] for metric, of_queries in zip(metrics, values, strict=True)}
    queries = queries[order]
    if pooled:
        # Pooled queries follow the images. Each is reported as the row of its first image.
        queries = pooled.first[queries - task.queries[0]]
    return queries, per_query, None if indexed is None else indexed.report()


def _values(metrics, ranks_of):
    """Returns a tuple of the queries and each metric's values for them."""
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
    """Computes retrieval, pair, cluster and embedding metrics of embeddings and their labels.

    By default, every image is a query among all other images. An image is never its own neighbor. If images of another
    class are exactly as similar to a query as an image of its own class, they rank first, so a collapsed embedding has
    a score near 0. Queries without another image of their class in the gallery are left out.

    Args:
        embeddings: `[N, d]` array of finite numbers.
        labels: `[N]` integer class labels.
        metrics: Tuple of metric specs, such as `("recall_at_1", "map_at_r", "nmi")`, or a single spec. Defaults to
            Recall@1, 2, 4 and 8.
        queries: `[N]` booleans. Which rows are queries. If `None`, all rows are. Defaults to `None`.
        gallery: `[N]` booleans. Which rows are in the gallery. If `None`, all rows are. Defaults to `None`.
        apart: Sequence of integer arrays `[N]`, such as camera numbers. A gallery image that has the same class as the
            query and the same value in one of these arrays is ignored: it counts neither as a hit nor as a miss.
            Defaults to `()`.
        distance: `"cosine"` or `"euclidean"`. Defaults to `"cosine"`.
        index: Spec of an index. `"ivf"`, for example, finds the nearest images of a large gallery approximately.
            Defaults to `"exact"`.
        seed: Integer. Determines the initial centroids of K-means, which cluster metrics use. Defaults to `0`.

    Returns:
        A dictionary such as `{"recall_at_1": 0.721, ..., "queries": 5000}`: the value of each metric, and the number of
        queries if a metric is a mean over queries. With an approximate index, it also has `index_recall` and
        `index_short_lists`.

    Raises:
        ValueError: If shapes do not match, a label is missing, a metric is unknown, or no query has a positive.

    Example:

    ```python
    labels = np.array([0, 0, 1, 1])
    embeddings = np.array([[1, 0], [0.8, 0.6], [0, 1], [0.6, 0.8]], "float32")
    tfdml.evaluation.evaluate(embeddings, labels, "recall_at_1")  # {'recall_at_1': 0.5, 'queries': 4}
    ```
    """
    task = RetrievalTask.of(labels, queries=queries, gallery=gallery, apart=apart)
    index = registry.create("index", index)
    return measure(embeddings, task, metrics_of(metrics), distance=distance, index=index, seed=seed).summary()


# Sizes are reported if the largest class has at least this many times as many images as the smallest.
DIFFERENT = 2


def by_class_size(scores, labels):
    """Returns the means over queries for large, middle and small classes, three groups of equally many classes.

    The result is `{"head": {"classes": ..., "images": ..., metric: mean, ...}, "middle": ..., "tail": ...}`, without
    parts that have no query. It is empty if the classes are of similar sizes, or if no metric is a mean over queries.
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
    """Returns the fraction of images for which the finest level shared with the nearest image is each of the levels.

    Embeddings are compared by Euclidean distance. A hierarchy `[N, L]` is ordered from coarse to fine. Returns `{finest
    level: fraction, ..., coarsest level: fraction, "none": fraction}`. The fractions sum to 1.
    """
    shared = grades_of_nearest(embeddings, hierarchy, 1)[:, 0]
    shares = np.bincount(shared, minlength=len(names) + 1) / len(shared)
    return dict(zip([*reversed(names), "none"], shares[::-1].tolist(), strict=True))


def breakdown(scores, embeddings, rows, distance):
    """Returns what a run's result has besides scores: `by_class_size`, and `nearest` if classes have a hierarchy."""
    sizes = by_class_size(scores, rows.labels)
    found = {"by_class_size": sizes} if sizes else {}
    if rows.hierarchy is not None and len(rows.labels) > 1:
        compared = embeddings if distance == "euclidean" else unit_length(embeddings)
        found["nearest"] = nearest_shares(compared, rows.hierarchy, rows.level_names)
    return found


def fuse(members, weights=None):
    """Concatenates the embeddings of an ensemble's members: `s(x, y) = sum_e alpha_e s(x_e, y_e)`, (1) of EDMS.

    Members are arrays `[N, d]`, which may differ in d. Each is L2-normalized. The weights `alpha` are numbers of 0 or
    more, and only their ratios matter. If they are None, all members have the same weight.

    Returns L2-normalized embeddings `[N, E * d]`, the concatenated `sqrt(alpha_e) x_e`. Members with fewer dimensions
    than the largest are padded with zeros. The cosine of two rows is their similarity, divided by the sum of the
    weights.
    """
    weights = np.ones(len(members)) if weights is None else np.asarray(weights, float)
    size = max(member.shape[1] for member in members)
    scales = np.sqrt(weights / weights.sum()).astype(np.float32)
    padded = (np.pad(unit_length(member), ((0, 0), (0, size - member.shape[1]))) for member in members)
    return np.concatenate([scale * each for scale, each in zip(scales, padded, strict=True)], axis=1)


def fit_weights(members, measure):
    """Fits the weights of (1), integers of 0 or more, by ensemble selection with replacement.

    See Caruana et al., Ensemble Selection from Libraries of Models, ICML 2004. The selection starts empty. 2 E times,
    the member with which the measure is best is added to it; a member may be added several times, and its weight is how
    often it was selected. The result is the best selection on the way, or weights of 1 if no selection is better. If
    several are equally good, the first is used, so nothing is random. The measure is a function of embeddings `[N, D]`
    that is larger for better ones, and it is called 2 E^2 times. No member should have been trained on these rows.
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
