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


def all_pairs(means, resampled, pooled=False):
    """Compares each thing with each other by a bootstrap.

    The statistic of a pair is its difference in standard errors, t; those are the standard deviations over the
    resamples. A resample's largest error of any pair in standard errors, max |t*|, has the distribution that the
    largest |t| would have if nothing differed. Its 0.95 quantile is how many standard errors wide the intervals are:
    with a probability of 95 % all of them hold, and no pair is called different by chance. The p-value of a pair is the
    fraction of resamples with a max |t*| of its |t| or more, its own included. Pairs that have much in common, as those
    with one thing in both, cost less than with Bonferroni or Holm. See Westfall and Young, "Resampling-Based Multiple
    Testing", 1993, section 2.4, the single-step method.

    Args:
        means: mean of each thing, `[N]`.
        resampled: the same of each resample, `[samples, N]`; the things of a row are of the same resample.
        pooled: whether no standard error is taken to be less than the root mean square of those of all pairs, for
            errors of few draws, which may agree by chance.
    """
    means = np.asarray(means)
    errors, count = resampled - means, len(means)
    scales = np.array([np.std(errors - errors[:, [first]], axis=0) for first in range(count)])
    if pooled:
        pairs = ~np.eye(count, dtype=bool)
        scales[pairs] = np.maximum(scales[pairs], np.sqrt(np.sum(scales**2) / max(pairs.sum(), 1)))
    # Without an error are a thing and itself, and things that differ by as much in every draw.
    known = np.where(scales > SMALLEST_ERROR, scales, np.inf)
    largest = np.max(
        [np.max(np.abs(errors - errors[:, [first]]) / known[first], axis=1) for first in range(count)], axis=0
    )
    differences = means[:, None] - means[None, :]
    certain = np.where(np.abs(differences) > SMALLEST_ERROR, np.inf, 0.0)
    statistics = np.where(np.isfinite(known), np.abs(differences) / known, certain)
    as_large = len(largest) - np.searchsorted(np.sort(largest), statistics)
    return AllPairs(differences, np.quantile(largest, CONFIDENCE) * scales, (1 + as_large) / (1 + len(largest)))
