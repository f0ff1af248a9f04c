"""`EmbeddingMetric`: a property of the embeddings themselves."""

from collections.abc import MutableMapping

import numpy as np

from tfdml.evaluation.metrics.metric import Metric


class EmbeddingMetric(Metric):
    """A metric of embeddings and their classes, without ranks or clusters."""

    larger_is_better = False

    def value(self, embeddings: np.ndarray, labels: np.ndarray) -> float | None:
        """Returns the metric, or None if these embeddings have none, such as a distance of pairs without pairs.

        Args:
            embeddings: `[N, d]` float array: at unit length if the search is by cosine similarity.
            labels: `[N]` class numbers.
        """
        raise NotImplementedError

    def value_if_new(
        self, known: MutableMapping[str, float | None], embeddings: np.ndarray, labels: np.ndarray
    ) -> float | None:
        """Returns the metric, computed only if it is not known; for metrics that are computed from others.

        Args:
            known: metric name to its value for these embeddings; gets the values that are computed.
            embeddings, labels: as of `value`.
        """
        if self.name not in known:
            known[self.name] = self.value(embeddings, labels)
        return known[self.name]
