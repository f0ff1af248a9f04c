"""Protocols for class hierarchies, multi-label images and explicit pairs."""

import dataclasses

import numpy as np

from tfdml.evaluation.evaluate import measure
from tfdml.evaluation.metrics import PairMetric, RankMetric
from tfdml.evaluation.protocols.protocol import MetricSpecs, Protocol
from tfdml.evaluation.queries import RetrievalTask
from tfdml.evaluation.ranks.exact_vectors import TIE, ExactVectors
from tfdml.evaluation.scores import Scores
from tfdml.evaluation.verification.pair_list import similarities_of_pairs
from tfdml.evaluation.verification.pairs import NEARLY_ALL, PairCounts
from tfdml.registry import register
from tfdml.registry.arguments import Distance
from tfdml.runtime.workers import ALONE

LEVEL_METRICS = ("recall_at_1", "recall_at_2", "recall_at_4", "recall_at_8", "map_at_r")
LEVEL_METRICS += ("hierarchical_ap", "ndcg", "mistake_severity", "nmi")


@register("protocol", "levels")
class Levels(Protocol):
    """Searches every image among all others and measures each level of a class hierarchy.

    Rank metrics are computed for the classes and again for the categories of each level. The level is part of their
    name, such as `recall_at_1_of_make`. Metrics such as `hierarchical_ap` and `ndcg` use all levels at once.

    Args:
        metrics: Metric spec or sequence of specs. Defaults to `("recall_at_1", "recall_at_2", "recall_at_4",
            "recall_at_8", "map_at_r", "hierarchical_ap", "ndcg", "mistake_severity", "nmi")`.
        distance: `"cosine"`, or `"euclidean"` if the lengths of embeddings have a meaning. Defaults to `"cosine"`.
    """

    def __init__(self, metrics: MetricSpecs = LEVEL_METRICS, distance: Distance = "cosine"):
        super().__init__(metrics, distance)

    def scores(self, embeddings, rows, metrics=None, workers=ALONE):
        if rows.hierarchy is None:
            raise ValueError(
                "The protocol 'levels' needs classes with levels, and these images have none. Pass rows with a "
                "hierarchy or, in a command, a flag such as --levels=make,model."
            )
        metrics = self.metrics if metrics is None else metrics
        graded = [metric for metric in metrics if metric.graded]
        scores = super().scores(embeddings, rows, [metric for metric in metrics if not metric.graded], workers)
        options = {"distance": self.distance, "workers": workers}
        task = dataclasses.replace(RetrievalTask.of(rows.labels), labels=rows.hierarchy)
        values = scores.values | measure(embeddings, task, graded, **options).values
        of_ranks = [metric for metric in metrics if isinstance(metric, RankMetric)]
        for place, name in enumerate(rows.level_names):
            if of_ranks and len(np.unique(rows.hierarchy[:, place])) < len(np.unique(rows.labels)):
                found = measure(embeddings, RetrievalTask.of(rows.hierarchy[:, place]), of_ranks, **options).values
                values |= {f"{metric}_of_{name}": value for metric, value in found.items()}
        endings = ["", *(f"_of_{level}" for level in rows.level_names)]
        order = [f"{metric.name}{ending}" for metric in metrics for ending in endings]
        return dataclasses.replace(scores, values={name: values[name] for name in order if name in values})


SEVERAL_LABEL_METRICS = ("relevance_at_1", "relevance_at_10", "graded_map", "ndcg")


@register("protocol", "several_labels")
class SeveralLabels(Protocol):
    """Searches every image among all others, for multi-label images.

    The relevance of an image to a query is the share of labels that both have (Jaccard similarity).

    Args:
        metrics: Spec or sequence of specs of metrics for multi-label images, or of metrics that need no classes.
            Defaults to `("relevance_at_1", "relevance_at_10", "graded_map", "ndcg")`.
        distance: `"cosine"`, or `"euclidean"` if the lengths of embeddings have a meaning. Defaults to `"cosine"`.
    """

    def __init__(self, metrics: MetricSpecs = SEVERAL_LABEL_METRICS, distance: Distance = "cosine"):
        super().__init__(metrics, distance)

    def scores(self, embeddings, rows, metrics=None, workers=ALONE):
        if rows.attributes is None:
            raise ValueError(
                "The protocol 'several_labels' needs multi-label images, and these have a single label. Use "
                "'self_retrieval'."
            )
        metrics = self.metrics if metrics is None else metrics
        needing = [metric.name for metric in metrics if metric.needs_classes and not metric.takes_several]
        if needing:
            raise ValueError(
                f"The protocol 'several_labels' cannot measure {', '.join(needing)}, which needs classes. Remove it "
                "from the metrics."
            )
        task = dataclasses.replace(RetrievalTask.of(rows.labels), labels=rows.attributes)
        return measure(embeddings, task, metrics, distance=self.distance, workers=workers)


GIVEN_PAIRS_METRICS = ("roc_auc", "pair_average_precision", "equal_error_rate", "effective_rank")
# Marks an image that a relation does not have.
NONE = -1


@register("protocol", "given_pairs")
class GivenPairs(Protocol):
    """Measures how well similarity separates explicit pairs of the same thing from pairs of different things.

    Only the pairs of the dataset are used, because nothing is known about other pairs.

    Args:
        metrics: Spec or sequence of specs of pair metrics that only count pairs, or of embedding metrics that need no
            classes. Defaults to `("roc_auc", "pair_average_precision", "equal_error_rate", "effective_rank")`.
        distance: `"cosine"`, or `"euclidean"` if the lengths of embeddings have a meaning. Defaults to `"cosine"`.
    """

    def __init__(self, metrics: MetricSpecs = GIVEN_PAIRS_METRICS, distance: Distance = "cosine"):
        super().__init__(metrics, distance)

    def scores(self, embeddings, rows, metrics=None, workers=None):
        metrics = self.metrics if metrics is None else metrics
        of_pairs = [metric for metric in metrics if isinstance(metric, PairMetric) and metric.of_counts]
        others = [metric for metric in metrics if metric not in of_pairs]
        needing = [metric.name for metric in others if metric.needs_classes]
        if needing:
            raise ValueError(
                f"The protocol 'given_pairs' cannot measure {', '.join(needing)}, which needs classes. Remove it from "
                "the metrics."
            )
        counts = self._counts(embeddings, rows)
        found = {metric.name: metric.value(counts) if metric.is_defined(counts) else None for metric in of_pairs}
        found |= super().scores(embeddings, rows, others).values
        return Scores({metric.name: found[metric.name] for metric in metrics})

    def pairs(self, embeddings, rows):
        raise ValueError(
            "The protocol 'given_pairs' has no classes, which thresholds and confidence intervals are computed from."
        )

    def _counts(self, embeddings, rows):
        if rows.relations is None:
            raise ValueError("The protocol 'given_pairs' needs the dataset 'pairs'. This dataset has no pairs.")
        relations = rows.known_relations
        order = np.argsort(rows.labels)
        place = order[np.searchsorted(rows.labels, np.maximum(relations, rows.labels.min()), sorter=order)]
        vectors = ExactVectors.of(np.asarray(embeddings), self.distance)
        scores, same = [], []
        for column in (1, 2):
            known = relations[:, column] != NONE
            scores.append(similarities_of_pairs(vectors, place[known, 0], place[known, column], self.distance))
            same.append(np.full(known.sum(), column == 1))
        scores = np.concatenate(scores)
        # The tie is relative to the size of nearly all distances, so that an outlier does not make others equal.
        tie = TIE * np.quantile(np.abs(scores), NEARLY_ALL) if self.distance == "euclidean" and len(scores) else TIE
        return PairCounts.of_scores(scores, np.concatenate(same), tie)
