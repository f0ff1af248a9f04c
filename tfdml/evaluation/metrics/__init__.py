"""Metrics of embeddings, with one module per family."""

from tfdml.evaluation.metrics.base import (
    ClusterMetric,
    EmbeddingMetric,
    Metric,
    PairMetric,
    RankMetric,
    is_metric,
    metric_of,
    metrics_of,
)

__all__ = [
    "ClusterMetric",
    "EmbeddingMetric",
    "Metric",
    "PairMetric",
    "RankMetric",
    "is_metric",
    "metric_of",
    "metrics_of",
]
