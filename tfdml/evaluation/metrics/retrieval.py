"""Metrics of retrieval: Recall@K, precision, average precision, CMC, and open-set identification."""

import logging
from typing import Annotated

import numpy as np

from tfdml.evaluation.metrics.base import PairMetric, RankMetric
from tfdml.evaluation.verification.pairs import best_matches, least_count
from tfdml.registry import register
from tfdml.registry.arguments import Count, number


@register("metric", "map_at_r")
class MAPAtR(RankMetric):
    """The mean of the precisions at the positives among the R nearest; a positive that is not among them counts as 0.

    R is the query's number of positives. From "A Metric Learning Reality Check" (ECCV 2020), section 3.2.
    """

    def depth(self, positives):
        return positives

    def per_query(self, ranks):
        within = ranks.ranks <= ranks.positives[:, None]
        return ranks.mean_over_positives(ranks.precisions() * within)


@register("metric", "map")
class MeanAveragePrecision(RankMetric):
    """The mean of the precisions at all positives of a query: mAP.

    Args:
        trapezoid: True to average each precision with the precision just before the positive, as the official code of
            Market-1501 and Oxford5k does; the result is slightly lower or higher.
    """

    trapezoid: bool = False

    @property
    def name(self) -> str:
        return "map_trapezoid" if self.trapezoid else "map"

    def per_query(self, ranks):
        precisions = ranks.precisions()
        if self.trapezoid:
            # The precision without the positive itself; 1 before the first rank.
            found = np.arange(ranks.ranks.shape[1])
            before = np.where(ranks.ranks > 1, found / np.maximum(ranks.ranks - 1, 1), 1.0)
            precisions = (precisions + np.where(ranks.ranks > 0, before, 0.0)) / 2
        return ranks.mean_over_positives(precisions)


@register("metric", "mrr")
class MeanReciprocalRank(RankMetric):
    """The mean of 1 / the rank of the first positive."""

    first_only = True

    def per_query(self, ranks):
        return 1 / ranks.first


@register("metric", "precision_at_k")
class PrecisionAtK(RankMetric):
    """The fraction of positives among the K nearest. It cannot reach 1 for a query with fewer than K positives.

    Args:
        k: number of neighbors.
    """

    k: Count

    @property
    def name(self) -> str:
        return f"precision_at_{self.k}"

    def depth(self, positives):
        return self.k

    def per_query(self, ranks):
        return np.sum((ranks.ranks > 0) & (ranks.ranks <= self.k), axis=1) / self.k


@register("metric", "r_precision")
class RPrecision(RankMetric):
    """The fraction of positives among the R nearest, where R is the query's number of positives."""

    def depth(self, positives):
        return positives

    def per_query(self, ranks):
        within = (ranks.ranks > 0) & (ranks.ranks <= ranks.positives[:, None])
        return np.sum(within, axis=1) / ranks.positives


@register("metric", "recall_at_k")
class RecallAtK(RankMetric):
    """The fraction of queries with a positive among the K nearest.

    Args:
        k: number of neighbors.
    """

    k: Count

    @property
    def name(self) -> str:
        return f"recall_at_{self.k}"

    first_only = True

    def depth(self, positives):
        return self.k

    def per_query(self, ranks):
        return ranks.first <= self.k


@register("metric", "cmc_at_k")
class CMCAtK(RecallAtK):
    """The fraction of queries with a positive among the K nearest: Recall@K, as re-identification calls it.

    Args:
        k: rank, from 1.
    """

    @property
    def name(self) -> str:
        return f"cmc_at_{self.k}"


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
                f"{self.name} needs a query whose class is in the gallery, and {needed:,} or more whose class is not; "
                f"there are {known.sum():,} and {strangers:,}. It has no value."
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
