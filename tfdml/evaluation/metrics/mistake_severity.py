"""How far from right mistakes are."""

import numpy as np

from tfdml.evaluation.metrics.embedding_metric import EmbeddingMetric
from tfdml.evaluation.metrics.graded_relevance import full_grade, grades_of_nearest
from tfdml.registry import register


@register("metric", "mistake_severity")
class MistakeSeverity(EmbeddingMetric):
    """How many levels up the nearest image of another class has something in common, a mean over these mistakes.

    The height of the lowest common ancestor of Bertinetto et al., Making Better Mistakes, 2020, from 1 to the number of
    levels, which stands for nothing in common. With one level it is 1. Of images that are equally near, the one that
    has least in common is the nearest. None without a mistake.
    """

    graded = True

    def value(self, embeddings, labels):
        if len(embeddings) < 2:
            return None
        height = full_grade(labels) - grades_of_nearest(embeddings, labels, 1)
        return float(np.mean(height[height > 0])) if np.any(height > 0) else None
