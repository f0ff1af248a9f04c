"""The protocols of images with levels of classes, with several labels, or of given pairs."""

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
    """Searches every image among all others; metrics of ranks are of classes, and of the categories of each level.

    Those of a level have its name, such as `recall_at_1_of_make`. `hierarchical_ap` and `ndcg` take all levels at once.

    Args:
        metrics: metric specs, such as ("recall_at_1", "hierarchical_ap").
        distance: "cosine", or "euclidean" for embeddings whose length has a meaning.
    """

    def __init__(self, metrics: MetricSpecs = LEVEL_METRICS, distance: Distance = "cosine"):
        super().__init__(metrics, distance)

    def scores(self, embeddings, rows, metrics=None, workers=ALONE):
        if rows.hierarchy is None:
            raise ValueError(
                "The protocol levels measures classes with levels, and these images have none. Pass rows with a "
                "hierarchy, in a command --levels=make,model."
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
    """Searches every image among all others; images are relevant by the share of labels that both have (Jaccard's).

    Args:
        metrics: specs of metrics that take several labels an image, such as ("relevance_at_1", "ndcg"), or none.
        distance: "cosine", or "euclidean" for embeddings whose length has a meaning.
    """

    def __init__(self, metrics: MetricSpecs = SEVERAL_LABEL_METRICS, distance: Distance = "cosine"):
        super().__init__(metrics, distance)

    def scores(self, embeddings, rows, metrics=None, workers=ALONE):
        if rows.attributes is None:
            raise ValueError("The protocol several_labels measures images with several labels; these have one.")
        metrics = self.metrics if metrics is None else metrics
        needing = [metric.name for metric in metrics if metric.needs_classes and not metric.takes_several]
        if needing:
            raise ValueError(f"The protocol several_labels has no classes, which {', '.join(needing)} needs.")
        task = dataclasses.replace(RetrievalTask.of(rows.labels), labels=rows.attributes)
        return measure(embeddings, task, metrics, distance=self.distance, workers=workers)


GIVEN_PAIRS_METRICS = ("roc_auc", "pair_average_precision", "equal_error_rate", "effective_rank")
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

    def __init__(self, metrics: MetricSpecs = GIVEN_PAIRS_METRICS, distance: Distance = "cosine"):
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
            scores.append(similarities_of_pairs(vectors, place[known, 0], place[known, column], self.distance))
            same.append(np.full(known.sum(), column == 1))
        scores = np.concatenate(scores)
        # Relative to what nearly all distances are: an outlier makes no others equal.
        tie = TIE * np.quantile(np.abs(scores), NEARLY_ALL) if self.distance == "euclidean" and len(scores) else TIE
        return PairCounts.of_scores(scores, np.concatenate(same), tie)
