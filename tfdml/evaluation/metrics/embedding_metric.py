"""`EmbeddingMetric`: a property of the embeddings themselves."""

from tfdml.evaluation.metrics.metric import Metric


class EmbeddingMetric(Metric):
    """A metric of embeddings and their classes, without ranks or clusters."""

    larger_is_better = False

    def value(self, embeddings, labels):
        """Returns the metric, or None if these embeddings have none, such as a distance of pairs without pairs.

        Args:
            embeddings: `[N, d]` float array: at unit length if the search is by cosine similarity.
            labels: `[N]` class numbers.
        """
        raise NotImplementedError
