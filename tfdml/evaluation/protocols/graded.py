"""The protocols of images with levels of classes, or with several labels."""

import dataclasses

import numpy as np

from tfdml.evaluation.evaluate import measure
from tfdml.evaluation.metrics import RankMetric
from tfdml.evaluation.protocols.protocol import MetricSpecs, Protocol
from tfdml.evaluation.queries import RetrievalTask
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
