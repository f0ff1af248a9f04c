"""Every image is searched among all others, and what is found is judged at each level of a hierarchy."""

import dataclasses

import numpy as np

from tfdml.evaluation.measure import measure
from tfdml.evaluation.metrics import RankMetric
from tfdml.evaluation.protocols.protocol import MetricSpecs, Protocol
from tfdml.evaluation.search import RetrievalTask
from tfdml.registry import register
from tfdml.registry.arguments import Distance
from tfdml.runtime.workers import ALONE

METRICS = ("recall_at_1", "recall_at_2", "recall_at_4", "recall_at_8", "map_at_r")
METRICS += ("hierarchical_ap", "ndcg", "mistake_severity", "nmi")


@register("protocol", "levels")
class Levels(Protocol):
    """Searches every image among all others; metrics of ranks are of classes, and of the categories of each level.

    Those of a level have its name, such as `recall_at_1_of_make`. `hierarchical_ap` and `ndcg` take all levels at once.

    Args:
        metrics: metric specs, such as ("recall_at_1", "hierarchical_ap").
        distance: "cosine", or "euclidean" for embeddings whose length has a meaning.
    """

    def __init__(self, metrics: MetricSpecs = METRICS, distance: Distance = "cosine"):
        super().__init__(metrics, distance)

    def tasks(self, rows):
        return [RetrievalTask.of(rows.labels)]

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
        order = [name for metric in metrics for name in values if name in _names(metric.name, rows)]
        return dataclasses.replace(scores, values={name: values[name] for name in order})


def _names(metric, rows):
    return [metric, *(f"{metric}_of_{level}" for level in rows.level_names)]
