"""Mean relevance of the K nearest."""

from tfdml.evaluation.metrics.embedding_metric import EmbeddingMetric
from tfdml.evaluation.metrics.graded_relevance import full_grade, grades_of_nearest
from tfdml.registry import register
from tfdml.registry.arguments import Count


@register("metric", "relevance_at_k")
class RelevanceAtK(EmbeddingMetric):
    """The mean relevance of the K nearest: the share of labels that two images have in common, or of levels.

    With one class an image it is Precision@K. Of fewer images it takes all others; None of one image. Of images that
    are equally near, those that have less in common come first.

    Args:
        k: number of neighbors.
    """

    k: Count

    graded = True
    takes_several = True
    larger_is_better = True

    @property
    def name(self) -> str:
        return f"relevance_at_{self.k}"

    def value(self, embeddings, labels):
        if len(embeddings) < 2:
            return None
        return float(grades_of_nearest(embeddings, labels, self.k).mean() / full_grade(labels))
