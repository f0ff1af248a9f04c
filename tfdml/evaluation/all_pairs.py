"""Compares all pairs of several things at once, so that many pairs make no chance finding."""

from dataclasses import dataclass

import numpy as np

from tfdml.evaluation.bootstrap import CONFIDENCE

# Below it is what rounding leaves of no error.
SMALLEST_ERROR = 1e-12


@dataclass(frozen=True)
class AllPairs:
    """All pairs of things, as arrays `[N, N]`: of the first and the second of a pair.

    Args:
        differences: how much higher the mean of the first is.
        widths: half the widths of the intervals around them, which hold for all pairs together.
        p_values: corrected for the number of pairs.
    """

    differences: np.ndarray
    widths: np.ndarray
    p_values: np.ndarray

    def interval(self, first, second):
        """Returns how much higher the mean of the first is, and the ends of its interval."""
        difference, width = self.differences[first, second], self.widths[first, second]
        return float(difference), float(difference - width), float(difference + width)

    def larger(self):
        """Returns where the first is higher by more than chance: booleans `[N, N]`."""
        return self.differences > np.maximum(self.widths, SMALLEST_ERROR)


@dataclass(frozen=True)
class Seeds:
    """Errors of means over a few seeds, which are independent between things.

    Args:
        variances: of the mean of each thing over its seeds, `[N]`.
        degrees: degrees of freedom of each of them, such as the number of seeds less 1.
    """

    variances: np.ndarray
    degrees: float


def all_pairs(means, resampled, degrees, seeds=None):
    """Compares each thing with each other by a bootstrap.

    The statistic of a pair is its difference in standard errors, t. A resample's largest error of any pair in standard
    errors, max |t*|, has the distribution that the largest |t| would have if nothing differed and standard errors were
    known. They are estimated from a few classes or seeds, so each |t| is first replaced by the normal value with the
    same p-value, by the t distribution with the degrees of freedom of the pair (Satterthwaite, 1946). The 0.95 quantile
    of max |t*| then says how wide the intervals are: with a probability of about 95% all of them hold, and no pair is
    called different by chance. The p-value of a pair is the fraction of resamples with a max |t*| of its |t| or more,
    its own included. Pairs that have much in common, such as two pairs with one thing in both, cost less than with
    Bonferroni or Holm. See Westfall and Young, "Resampling-Based Multiple Testing", 1993, section 2.4, the single-step
    method.

    Args:
        means: mean of each thing, `[N]`.
        resampled: the same of each resample, `[samples, N]`; the things of a row are of the same resample.
        degrees: degrees of freedom of the resamples, as `degrees_of` returns them.
        seeds: `Seeds`, errors that the resamples lack. If `None`, there are none.
    """
    # Here, because it takes a part of a second, and other commands import this module.
    from scipy.stats import norm, t

    means = np.asarray(means)
    # Resamples of n classes vary by (n - 1) / n of what means of n others would.
    errors = (resampled - means) * np.sqrt((degrees + 1) / degrees)
    variances = np.array([np.var(errors - errors[:, [first]], axis=0) for first in range(len(means))])
    squares = variances**2 / degrees
    if seeds is not None:
        own = np.asarray(seeds.variances)
        between = ~np.eye(len(means), dtype=bool)
        variances = variances + between * (own[:, None] + own[None, :])
        squares = squares + between * (own[:, None] ** 2 + own[None, :] ** 2) / seeds.degrees
        errors = errors + np.random.default_rng(0).normal(size=errors.shape) * np.sqrt(own)
    scales = np.sqrt(variances)
    # Without an error are a thing and itself, and things that differ by as much in every draw.
    known = np.where(scales > SMALLEST_ERROR, scales, np.inf)
    freedom = np.where(squares > 0, variances**2 / np.where(squares > 0, squares, 1), degrees)
    largest = np.max(
        [np.max(np.abs(errors - errors[:, [first]]) / known[first], axis=1) for first in range(len(means))], axis=0
    )
    differences = means[:, None] - means[None, :]
    certain = np.where(np.abs(differences) > SMALLEST_ERROR, np.inf, 0.0)
    alone = t.sf(np.where(np.isfinite(known), np.abs(differences) / known, certain), freedom)
    as_large = len(largest) - np.searchsorted(np.sort(largest), norm.isf(alone))
    # Resamples of very few classes have no large errors. No pair is surer than it would be without the others.
    tail = min(norm.sf(np.quantile(largest, CONFIDENCE)), (1 - CONFIDENCE) / 2)
    p_values = np.maximum((1 + as_large) / (1 + len(largest)), 2 * alone)
    return AllPairs(differences, t.isf(tail, freedom) * scales, p_values)
