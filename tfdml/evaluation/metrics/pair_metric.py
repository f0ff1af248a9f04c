"""`PairMetric`: how well a threshold of similarity tells pairs of the same class from others."""

import logging
from collections.abc import Callable

import numpy as np

from tfdml.evaluation.metrics.metric import Metric
from tfdml.evaluation.verification.pair_counts import PairCounts
from tfdml.evaluation.verification.pairs import Pairs


class PairMetric(Metric):
    """A metric of all pairs of a query and a gallery image, each pair once, by their similarity."""

    #: Whether `PairCounts` are enough; if not, it overrides `value_of_pairs` and `of_draws`.
    of_counts = True
    #: The least number of pairs of different classes that it means something for.
    negatives_needed = 1

    def value(self, counts: PairCounts) -> float | None:
        """Returns the metric.

        Args:
            counts: `PairCounts` with pairs of the same class and of different classes.
        """
        raise NotImplementedError

    def value_of_pairs(self, pairs: Pairs) -> float | None:
        """Returns the metric, or None, with a warning, where there are too few pairs.

        Args:
            pairs: `Pairs`.
        """
        return self.value(pairs.counts) if self.is_defined(pairs.counts) else None

    def of_draws(self, pairs: Pairs) -> Callable[[PairCounts, np.ndarray], float | None]:
        """Returns what gives the metric where classes are drawn, for intervals.

        It is a function of the `PairCounts` of those that are drawn, and how often each class is, `[C]`.

        Args:
            pairs: `Pairs` of all classes.
        """
        return lambda counts, times: self.value(counts)

    def is_defined(self, counts: PairCounts) -> bool:
        """Returns whether there are enough pairs, and warns if not."""
        positives, negatives = counts.totals
        if positives and negatives >= self.negatives_needed:
            return True
        logging.getLogger(__name__).warning(
            "%s needs a pair of the same class, and of different classes %s or more; there are %s and %s. It has no "
            "value.",
            self.name,
            f"{self.negatives_needed:,}",
            f"{positives:,}",
            f"{negatives:,}",
        )
        return False
