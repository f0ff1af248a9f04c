"""Weighted sums of several rows' Recall@1, such as differences, and corrections of many of them together."""

from typing import NamedTuple

import numpy as np

from tfdml.evaluation.statistics import SMALLEST_ERROR, single_step


class Contrast(NamedTuple):
    """A weighted sum of means with its standard error, degrees of freedom, and its error in each resample."""

    mean: float
    error: float
    degrees: float
    draws: np.ndarray

    def interval(self):
        """Returns the ends of the 95% confidence interval."""
        from scipy.stats import t

        width = float(t.isf(0.025, self.degrees)) * self.error
        return self.mean - width, self.mean + width


def contrast(weights, means, resampled, degrees, seeds=None, names=None):
    """Returns the `Contrast` of several means. For two means with the weights -1 and 1, it agrees with `all_pairs`.

    Args:
        weights: Weight of each mean.
        means, resampled, degrees, seeds: The arguments of `tfdml.evaluation.statistics.all_pairs`.
        names: Names of the means, or None. The same name has the same errors of seeds in different contrasts.
    """
    weights = np.asarray(weights, float)
    # The variance over resamples of n classes is (n - 1) / n times the variance over samples of n new classes.
    draws = (resampled - means) @ weights * np.sqrt((degrees + 1) / degrees)
    variance = np.var(draws)
    square = variance**2 / degrees
    if seeds is not None:
        own = weights**2 * seeds.variances
        variance, square = variance + own.sum(), square + np.sum(own**2) / seeds.degrees
        for name, weight, each in zip(names or range(len(weights)), weights, seeds.variances, strict=True):
            generator = np.random.default_rng(list(str(name).encode()))
            draws = draws + weight * np.sqrt(each) * generator.normal(size=len(draws))
    freedom = variance**2 / square if square > 0 else degrees
    return Contrast(float(weights @ means), float(np.sqrt(variance)), float(freedom), draws)


def corrected(contrasts):
    """Returns the p-values of contrasts, corrected for their number by the method of `all_pairs`, *max-t*.

    Args:
        contrasts: List of `Contrast` with the same number of draws.
    """
    scales = np.array([each.error for each in contrasts])
    standard = np.array([each.draws / max(each.error, SMALLEST_ERROR) for each in contrasts])
    means, freedom = (np.array([getattr(each, name) for each in contrasts]) for name in ("mean", "degrees"))
    return single_step(means, scales, freedom, np.abs(standard).max(axis=0))[1].tolist()


def holm(p_values, count=0):
    """Returns p-values corrected for their number by the method of Holm (1979).

    Args:
        p_values: List of p-values.
        count: Number of planned comparisons, if some have no p-value yet. They count as not significant.
    """
    count, corrected_so_far = max(count, len(p_values)), 0.0
    found = list(p_values)
    for number, place in enumerate(np.argsort(p_values)):
        corrected_so_far = max(corrected_so_far, min(1.0, (count - number) * p_values[place]))
        found[place] = corrected_so_far
    return found
