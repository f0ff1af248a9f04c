"""Distance within classes over distance between classes."""

from tfdml.evaluation.metrics.embedding_metric import EmbeddingMetric
from tfdml.evaluation.metrics.inter_class_distance import InterClassDistance
from tfdml.evaluation.metrics.intra_class_distance import IntraClassDistance
from tfdml.registry import register


@register("metric", "distance_ratio")
class DistanceRatio(EmbeddingMetric):
    """`intra_class_distance` over `inter_class_distance`, the density of an embedding.

    From "Revisiting Training Strategies and Generalization Performance in Deep Metric Learning" (ICML 2020), where
    models that generalize better to new classes have a larger one. None if either distance is not defined, or if all
    classes have the same mean.
    """

    def value(self, embeddings, labels):
        return self.value_if_new({}, embeddings, labels)

    def value_if_new(self, known, embeddings, labels):
        distances = (IntraClassDistance(), InterClassDistance())
        intra, inter = (metric.value_if_new(known, embeddings, labels) for metric in distances)
        return None if intra is None or not inter else intra / inter
