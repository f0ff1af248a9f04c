"""Retrieval metrics: Recall@K, precision, average precision, CMC, and open-set identification."""

import logging
from typing import Annotated

import numpy as np

from tfdml.evaluation.metrics.base import PairMetric, RankMetric
from tfdml.evaluation.verification.pairs import best_matches, least_count
from tfdml.registry import register
from tfdml.registry.arguments import Count, number


@register("metric", "map_at_r")
class MAPAtR(RankMetric):
    """Mean average precision at R, where R is the query's number of positives (MAP@R).

    A query's value is the mean over its R positives of the precision at their rank. Positives that are not among the R
    nearest images count as 0. From "A Metric Learning Reality Check" (ECCV 2020), section 3.2.
    """

    def depth(self, positives):
        return positives

    def per_query(self, ranks):
        within = ranks.ranks <= ranks.positives[:, None]
        return ranks.mean_over_positives(ranks.precisions() * within)


@register("metric", "map")
class MeanAveragePrecision(RankMetric):
    """Mean average precision (mAP): the mean of the precisions at the ranks of all positives of a query.

    Args:
        trapezoid: Boolean. Whether to average each precision with the precision just before the positive, as the
            official code of Market-1501 and Oxford5k does. The result is slightly lower or higher. Defaults to `False`.
    """

    trapezoid: bool = False

    @property
    def name(self) -> str:
        return "map_trapezoid" if self.trapezoid else "map"

    def per_query(self, ranks):
        precisions = ranks.precisions()
        if self.trapezoid:
            # The precision without the positive itself, which is 1 before the first rank.
            found = np.arange(ranks.ranks.shape[1])
            before = np.where(ranks.ranks > 1, found / np.maximum(ranks.ranks - 1, 1), 1.0)
            precisions = (precisions + np.where(ranks.ranks > 0, before, 0.0)) / 2
        return ranks.mean_over_positives(precisions)


@register("metric", "mrr")
class MeanReciprocalRank(RankMetric):
    """Mean reciprocal rank: the mean of 1 / rank of each query's first positive."""

    first_only = True

    def per_query(self, ranks):
        return 1 / ranks.first


@register("metric", "precision_at_k")
class PrecisionAtK(RankMetric):
    """Fraction of positives among the K nearest images.

    The value cannot reach 1 for a query with fewer than K positives.

    Args:
        k: Integer. Number of neighbors.
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
    """Fraction of positives among the R nearest images, where R is the query's number of positives."""

    def depth(self, positives):
        return positives

    def per_query(self, ranks):
        within = (ranks.ranks > 0) & (ranks.ranks <= ranks.positives[:, None])
        return np.sum(within, axis=1) / ranks.positives


@register("metric", "recall_at_k")
class RecallAtK(RankMetric):
    """Recall@K: fraction of queries with at least one positive among the K nearest images.

    Args:
        k: Integer. Number of neighbors.
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
    """Cumulative match characteristic at rank K: the name of Recall@K in re-identification.

    Args:
        k: Integer. Rank, starting at 1.
    """

    @property
    def name(self) -> str:
        return f"cmc_at_{self.k}"


@register("metric", "dir_at_far")
class DirAtFar(PairMetric):
    """Detection and identification rate at a false alarm rate, for open-set identification.

    This is the fraction of queries of known classes that are identified correctly: the nearest gallery image is of
    their class and similar enough. Queries of unknown classes, which have no image in the gallery, determine the
    threshold: it is the lowest at which at most `rate` of them are identified as anyone. Ties count against the model.
    The value is None, with a warning, if a single query of an unknown class exceeds that rate, or if no query has a
    known class.

    Args:
        rate: Float from 0.000001 to 0.5. The false alarm rate. `dir_at_far_0.01` is short for `dir_at_far(rate=0.01)`.
    """

    rate: Annotated[float, number(at_least=1e-6, at_most=0.5)]

    # It needs the nearest image of each query.
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
                f"{self.name} needs at least one query of a class in the gallery and {needed:,} of other classes. "
                f"Found {known.sum():,} and {strangers:,}, so it is None."
            )
            return None
        return self._value(own, others, np.ones(len(own)))

    def of_draws(self, pairs):
        """Returns a function that computes the metric for the queries of a resample of classes.

        They are searched in the whole gallery.
        """
        (own, others), labels = best_matches(pairs), pairs.task.labels[pairs.queries]

        def value(counts, times):
            weights = times[labels]
            enough = weights[own == 0].sum() >= least_count(self.rate) and weights[own > 0].any()
            return self._value(own, others, weights) if enough else None

        return value

    def _value(self, own, others, weights):
        """Returns the metric of queries, each of which counts as often as its weight."""
        known = own > 0
        order = np.argsort(-others[~known])
        strangers, counted = others[~known][order], np.cumsum(weights[~known][order])
        # The first query that must not be identified sets the threshold. If all may be, there is none.
        allowed = int(self.rate * counted[-1] * (1 + 1e-9))
        place = int(np.searchsorted(counted, allowed, side="right"))
        above = strangers[place] if place < len(strangers) else 0
        named = (own > others)[known] & (own[known] > above)
        return float(np.average(named, weights=weights[known]))
