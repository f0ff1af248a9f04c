"""DIR@FAR: open-set identification."""

import logging
from typing import Annotated

import numpy as np

from tfdml.evaluation.metrics.pair_metric import PairMetric
from tfdml.evaluation.verification.best_matches import best_matches
from tfdml.evaluation.verification.pair_counts import least_count
from tfdml.registry import register
from tfdml.registry.arguments import number


@register("metric", "dir_at_far")
class DirAtFar(PairMetric):
    """The fraction of queries of known classes that are found and named rightly, where few strangers are taken for one.

    The detection and identification rate of open-set identification. The nearest gallery image names a query if it is
    similar enough. Strangers are queries whose class is not in the gallery; the threshold is the lowest at which no
    more than `rate` of them are named. Ties count against the model. None, with a warning, where one stranger is more
    than that, or no query is of a known class.

    Args:
        rate: the false alarm rate, from 0.000001 to 0.5; `dir_at_far_0.01` is short for `dir_at_far(rate=0.01)`.
    """

    rate: Annotated[float, number(at_least=1e-6, at_most=0.5)]

    # It needs the nearest of each query.
    of_counts = False

    @property
    def name(self) -> str:
        return f"dir_at_far_{self.rate:g}".replace("e-0", "e-")

    def value_of_pairs(self, pairs):
        own, others = best_matches(pairs)
        known, needed = own > 0, least_count(self.rate)
        strangers = int(np.sum(~known))
        if strangers < needed or not known.any():
            logging.getLogger(__name__).warning(
                "%s needs a query whose class is in the gallery, and %s or more whose class is not; there are %s and "
                "%s. It has no value.",
                self.name,
                f"{needed:,}",
                f"{known.sum():,}",
                f"{strangers:,}",
            )
            return None
        return self._value(own, others, np.ones(len(own)))

    def of_draws(self, pairs):
        """Returns the metric of the queries whose classes are drawn, in the whole gallery."""
        (own, others), labels = best_matches(pairs), pairs.task.labels[pairs.queries]

        def value(counts, times):
            weights = times[labels]
            enough = weights[own == 0].sum() >= least_count(self.rate) and weights[own > 0].any()
            return self._value(own, others, weights) if enough else None

        return value

    def _value(self, own, others, weights):
        """Returns the metric of queries, each of which counts as often as its weight says."""
        known = own > 0
        order = np.argsort(-others[~known])
        strangers, counted = others[~known][order], np.cumsum(weights[~known][order])
        # Of the first that must not be named, all that are no more similar; that is none if all may be named.
        allowed = int(self.rate * counted[-1] * (1 + 1e-9))
        place = int(np.searchsorted(counted, allowed, side="right"))
        above = strangers[place] if place < len(strangers) else 0
        named = (own > others)[known] & (own[known] > above)
        return float(np.average(named, weights=weights[known]))
