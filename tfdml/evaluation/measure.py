"""Computes metrics of embeddings: each pass over them once, whatever the number of metrics."""

import functools

import numpy as np

from tfdml.clustering import check_finite, distinct_count, kmeans
from tfdml.evaluation.metrics import ClusterMetric, EmbeddingMetric, RankMetric
from tfdml.evaluation.metrics.unit_length import unit_length
from tfdml.evaluation.pooled_queries import PooledQueries
from tfdml.evaluation.positive_ranks import positive_ranks
from tfdml.evaluation.scores import Scores


def measure(embeddings, search, metrics, *, distance="cosine", reranking=None, index=None, seed=0):
    """Computes metrics of a search.

    Args:
        embeddings: `[N, d]` array, finite.
        search: `Search` among its rows.
        metrics: list of `Metric`.
        distance: `cosine` or `euclidean`.
        reranking: `Reranking`, for metrics of ranks; None: by similarity.
        index: `Index`, for metrics of ranks without reranking; None: exact.
        seed: determines the initial centroids of K-means.

    Returns:
        `Scores`.
    """
    embeddings = np.asanyarray(embeddings)
    search.check(embeddings)
    queries, per_query, report = None, {}, None
    if rank_metrics := _of(RankMetric, metrics):
        over_queries = _over_pooled_queries if search.pooling else _over_queries
        queries, per_query, report = over_queries(embeddings, search, rank_metrics, distance, reranking, index)
    rows = np.union1d(search.queries, search.gallery)
    labels, values = search.labels[rows], {name: float(np.mean(each)) for name, each in per_query.items()}
    if _of((ClusterMetric, EmbeddingMetric), metrics):
        points = _points(embeddings, rows, distance)
        values |= {metric.name: metric.value(points, labels) for metric in _of(EmbeddingMetric, metrics)}
        if cluster_metrics := _of(ClusterMetric, metrics):
            # A collapsed embedding has fewer points than classes; it gets a cluster for each.
            clusters, _ = kmeans(points, min(len(np.unique(labels)), distinct_count(points)), seed=seed)
            values |= {metric.name: metric.value(labels, clusters) for metric in cluster_metrics}
    count = None if queries is None else len(queries)
    return Scores({metric.name: values[metric.name] for metric in metrics}, queries, per_query, count, report)


def _over_pooled_queries(embeddings, search, metrics, distance, reranking, index):
    """Returns the first row of each pooled query, and what `_over_queries` does."""
    pooled = PooledQueries.of(embeddings, search, distance)
    queries, *more = _over_queries(pooled.embeddings, pooled.search, metrics, distance, reranking, index)
    return pooled.first[queries - len(embeddings)], *more


def _over_queries(embeddings, search, metrics, distance, reranking, index):
    """Returns the queries, ascending, the value of each metric for each query, and the `IndexReport` or None."""
    indexed = None if index is None else index.searched(embeddings, search, metrics, distance)
    if indexed is not None:
        ranks_of = indexed.ranks
    elif reranking is not None:
        ranks_of = functools.partial(reranking.ranks, embeddings, search)
    else:
        ranks_of = functools.partial(positive_ranks, embeddings, search, distance=distance)
    queries, values = _values(metrics, ranks_of)
    return queries, values, None if indexed is None else indexed.report()


def _values(metrics, ranks_of):
    """Returns the queries, ascending, and the value of each metric for each query."""
    first_only = all(metric.first_only for metric in metrics)
    rows, values = [], {metric.name: [] for metric in metrics}
    for ranks in ranks_of(first_only=first_only):
        rows.append(ranks.rows)
        for metric in metrics:
            values[metric.name].append(metric.per_query(ranks))
    if not rows:
        raise ValueError(
            f"{metrics[0].name} needs a query with another image of its class in the gallery; no query has one. "
            "Check labels, and which rows are queries and gallery."
        )
    rows = np.concatenate(rows)
    order = np.argsort(rows)
    return rows[order], {name: np.concatenate(each).astype(float)[order] for name, each in values.items()}


def _of(kind, metrics):
    return [metric for metric in metrics if isinstance(metric, kind)]


def _points(embeddings, rows, distance):
    """Embeddings as float32: at unit length for cosine similarity."""
    check_finite(embeddings)
    points = np.asarray(embeddings[rows], np.float32)
    return points if distance == "euclidean" else unit_length(points)
