"""Metrics of embeddings, one a file."""

from tfdml.evaluation.metrics.cluster_metric import ClusterMetric
from tfdml.evaluation.metrics.embedding_metric import EmbeddingMetric
from tfdml.evaluation.metrics.metric import Metric, is_metric, metric_of, metrics_of
from tfdml.evaluation.metrics.pair_metric import PairMetric
from tfdml.evaluation.metrics.rank_metric import RankMetric

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
