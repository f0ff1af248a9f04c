"""Computes metrics of embeddings: each pass over them once, whatever the number of metrics."""

import functools

import numpy as np

from tfdml.evaluation.metrics import ClusterMetric, EmbeddingMetric, PairMetric, RankMetric
from tfdml.evaluation.ranks.metric_depths import depths_of
from tfdml.evaluation.ranks.pooled_queries import PooledQueries
from tfdml.evaluation.ranks.positive_ranks import positive_ranks
from tfdml.evaluation.scores import Scores
from tfdml.evaluation.verification.pairs import Pairs
from tfdml.neighbors.clustering import check_finite, kmeans
from tfdml.neighbors.nearest import unit_length
from tfdml.runtime.workers import ALONE

DISTANCES = ("cosine", "euclidean")


def measure(embeddings, task, metrics, *, distance="cosine", reranking=None, index=None, seed=0, workers=ALONE):
    """Computes metrics of a retrieval task.

    Args:
        embeddings: `[N, d]` array, finite.
        task: `RetrievalTask` among its rows.
        metrics: list of `Metric`.
        distance: `cosine` or `euclidean`.
        reranking: `Reranking`, for metrics of ranks; None: by similarity.
        index: `Index`, for metrics of ranks without reranking; None: exact.
        seed: determines the initial centroids of K-means.
        workers: the `Workers` that measure together, with the same arguments and results.

    Returns:
        `Scores`.
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
        over_queries = _over_pooled_queries if task.pooling else _over_queries
        queries, per_query, report = over_queries(embeddings, task, rank_metrics, distance, reranking, index, workers)
    labels, values = task.labels[rows], {name: float(np.mean(each)) for name, each in per_query.items()}
    if pair_metrics := _of(PairMetric, metrics):
        pairs = pairs_of_task(embeddings, task, distance)
        values |= {metric.name: metric.value_of_pairs(pairs) for metric in pair_metrics}
    if _of((ClusterMetric, EmbeddingMetric), metrics):
        points = _points(embeddings, rows, distance)
        known = {}
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
    """Returns the `Pairs` of a task, of pooled queries where it pools them."""
    if task.pooling:
        pooled = PooledQueries.of(embeddings, task, distance)
        embeddings, task = pooled.embeddings, pooled.task
    return Pairs.of(embeddings, task, distance)


def _over_pooled_queries(embeddings, task, metrics, distance, *more):
    """Returns the first row of each pooled query, and what `_over_queries` does."""
    pooled = PooledQueries.of(embeddings, task, distance)
    queries, *found = _over_queries(pooled.embeddings, pooled.task, metrics, distance, *more)
    return pooled.first[queries - len(embeddings)], *found


def _over_queries(embeddings, task, metrics, distance, reranking, index, workers):
    """Returns the queries, ascending, the value of each metric for each query, and the `IndexReport` or None."""
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
    per_query = {metric.name: each[order] for metric, each in zip(metrics, values, strict=True)}
    return queries[order], per_query, None if indexed is None else indexed.report()


def _values(metrics, ranks_of):
    """Returns a tuple: the queries, and for each metric its values for them."""
    first_only = all(metric.first_only for metric in metrics)
    rows, values = [np.zeros(0, np.int64)], [[np.zeros(0)] for _ in metrics]
    for ranks in ranks_of(first_only=first_only):
        rows.append(ranks.rows)
        for metric, each in zip(metrics, values, strict=True):
            each.append(np.asarray(metric.per_query(ranks), float))
    return tuple(map(np.concatenate, (rows, *values)))


def _of(kind, metrics):
    return [metric for metric in metrics if isinstance(metric, kind)]


def _points(embeddings, rows, distance):
    """Embeddings as float32: at unit length for cosine similarity."""
    check_finite(embeddings)
    points = np.asarray(embeddings[rows], np.float32)
    return points if distance == "euclidean" else unit_length(points)
