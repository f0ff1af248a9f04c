"""Images have several labels, and what is found is more or less relevant."""

import dataclasses

from tfdml.evaluation.measure import measure
from tfdml.evaluation.protocols.protocol import MetricSpecs, Protocol
from tfdml.evaluation.search import RetrievalTask
from tfdml.registry import register
from tfdml.registry.arguments import Distance
from tfdml.runtime.workers import ALONE

METRICS = ("relevance_at_1", "relevance_at_10", "graded_map", "ndcg")


@register("protocol", "several_labels")
class SeveralLabels(Protocol):
    """Searches every image among all others; images are relevant by the share of labels that both have (Jaccard's).

    Args:
        metrics: specs of metrics that take several labels an image, such as ("relevance_at_1", "ndcg"), or none.
        distance: "cosine", or "euclidean" for embeddings whose length has a meaning.
    """

    def __init__(self, metrics: MetricSpecs = METRICS, distance: Distance = "cosine"):
        super().__init__(metrics, distance)

    def tasks(self, rows):
        return [RetrievalTask.of(rows.labels)]

    def scores(self, embeddings, rows, metrics=None, workers=ALONE):
        if rows.attributes is None:
            raise ValueError("The protocol several_labels measures images with several labels; these have one.")
        metrics = self.metrics if metrics is None else metrics
        needing = [metric.name for metric in metrics if metric.needs_classes and not metric.takes_several]
        if needing:
            raise ValueError(f"The protocol several_labels has no classes, which {', '.join(needing)} needs.")
        task = dataclasses.replace(RetrievalTask.of(rows.labels), labels=rows.attributes)
        return measure(embeddings, task, metrics, distance=self.distance, workers=workers)
