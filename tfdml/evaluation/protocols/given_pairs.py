"""Pairs of images are given, and whether they are the same."""

import numpy as np

from tfdml.evaluation.metrics import PairMetric
from tfdml.evaluation.protocols.protocol import MetricSpecs, Protocol
from tfdml.evaluation.ranks.exact_vectors import TIE, ExactVectors
from tfdml.evaluation.scores import Scores
from tfdml.evaluation.verification.pair_list import given_similarities
from tfdml.evaluation.verification.pairs import NEARLY_ALL, PairCounts
from tfdml.registry import register
from tfdml.registry.arguments import Distance

METRICS = ("roc_auc", "pair_average_precision", "equal_error_rate", "effective_rank")
# Stands for an image that a relation does not have.
NONE = -1


@register("protocol", "given_pairs")
class GivenPairs(Protocol):
    """Tells the given pairs that are the same from those that are not, by their similarity; no other pair is known.

    Args:
        metrics: specs of metrics of pairs that counts of pairs decide, such as ("roc_auc", "equal_error_rate"), or of
            embeddings without classes.
        distance: "cosine", or "euclidean" for embeddings whose length has a meaning.
    """

    def __init__(self, metrics: MetricSpecs = METRICS, distance: Distance = "cosine"):
        super().__init__(metrics, distance)

    def scores(self, embeddings, rows, metrics=None, workers=None):
        metrics = self.metrics if metrics is None else metrics
        of_pairs = [metric for metric in metrics if isinstance(metric, PairMetric) and metric.of_counts]
        others = [metric for metric in metrics if metric not in of_pairs]
        needing = [metric.name for metric in others if metric.needs_classes]
        if needing:
            raise ValueError(f"The protocol given_pairs knows no classes, which {', '.join(needing)} needs.")
        counts = self._counts(embeddings, rows)
        found = {metric.name: metric.value(counts) if metric.is_defined(counts) else None for metric in of_pairs}
        found |= super().scores(embeddings, rows, others).values
        return Scores({metric.name: found[metric.name] for metric in metrics})

    def pairs(self, embeddings, rows):
        raise ValueError("The protocol given_pairs knows no classes, which thresholds and intervals are fitted over.")

    def _counts(self, embeddings, rows):
        if rows.relations is None:
            raise ValueError("The protocol given_pairs measures the dataset 'pairs'; this one has no pairs.")
        relations = rows.known_relations
        order = np.argsort(rows.labels)
        place = order[np.searchsorted(rows.labels, np.maximum(relations, rows.labels.min()), sorter=order)]
        vectors = ExactVectors.of(np.asarray(embeddings), self.distance)
        scores, same = [], []
        for column in (1, 2):
            known = relations[:, column] != NONE
            scores.append(given_similarities(vectors, place[known, 0], place[known, column], self.distance))
            same.append(np.full(known.sum(), column == 1))
        scores = np.concatenate(scores)
        # Relative to what nearly all distances are: an outlier makes no others equal.
        tie = TIE * np.quantile(np.abs(scores), NEARLY_ALL) if self.distance == "euclidean" and len(scores) else TIE
        return PairCounts.of_scores(scores, np.concatenate(same), tie)
