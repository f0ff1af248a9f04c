"""Bootstrap intervals, and corrected comparisons of all pairs of several results."""

from dataclasses import dataclass

import numpy as np

# The part of the resampled means that lies within an interval.
CONFIDENCE = 0.95


def bootstrap_intervals(per_query, clusters=None, *, samples=2000, seed=0, memory=2**22):
    """Computes percentile bootstrap intervals of the mean of each metric: its name to `[low, high]`.

    A resample draws as many of the queries as there are, with replacement; the interval leaves out the lowest and the
    highest 2.5% of the means of all resamples. With clusters `[Q]`, such as the class number of each query, a resample
    draws whole clusters: queries of one class share their positives, so they tell less than as many independent
    queries, and the interval over classes is wider.

    Values `[Q]` per query are those of `Scores`. The interval of the paired difference of two models is that of their
    differences for each query. All metrics see the same resamples, which the seed determines; `memory` is the bytes for
    those that are drawn at once. See Efron and Tibshirani, "An Introduction to the Bootstrap", 1993, chapter 13.
    """
    if not per_query:
        raise ValueError("Bootstrap intervals need a metric that is a mean over queries, such as recall_at_1.")
    values = np.stack(list(per_query.values()), axis=1)
    means = resampled_means(values, clusters, samples=samples, seed=seed, memory=memory)
    return dict(zip(per_query, percentile_intervals(means), strict=True))


def class_intervals(scores, labels):
    """Returns bootstrap intervals over classes of the means over queries; `{}` without such means or several classes.

    The labels `[N]` are of the split that the `Scores` are of.
    """
    classes = None if scores.queries is None else labels[scores.queries]
    if classes is None or len(np.unique(classes)) < 2:
        return {}
    return bootstrap_intervals(scores.per_query, classes)


def percentile_intervals(means):
    """Returns a list of intervals `[low, high]` of the means of resamples `[samples, M]`."""
    return np.quantile(means, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2], axis=0).T.tolist()


def resampled_means(values, clusters=None, *, samples=2000, seed=0, memory=2**22):
    """Returns the means `[samples, M]` of resamples of values `[Q, M]`; arguments as of `bootstrap_intervals`."""
    random = np.random.default_rng(seed)
    places = np.arange(len(values)) if clusters is None else np.unique(clusters, return_inverse=True)[1]
    if len(places) != len(values):
        raise ValueError(f"Expected a cluster for each of {len(values)} queries, received {len(places)}.")
    sizes = np.bincount(places)
    if len(sizes) < 2:
        what = "query" if clusters is None else "class with queries"
        raise ValueError(f"Bootstrap intervals need two or more to draw from; there is one {what}.")
    sums = np.stack([*(np.bincount(places, column) for column in values.T), sizes], axis=1)
    # Draws, how often each is drawn, and the same as float64.
    block = max(1, memory // (3 * 8 * len(sizes)))
    totals = [times_drawn(random, min(block, samples - start), len(sizes)) @ sums for start in range(0, samples, block)]
    totals = np.concatenate(totals)
    return totals[:, :-1] / totals[:, -1:]


def degrees_of(sizes):
    """Returns the degrees of freedom of resamples of clusters: of n clusters of one size n - 1, otherwise less.

    Sizes are numbers of queries of each cluster; 1 for each query that is drawn itself. Where few clusters have most of
    the queries, means vary as if there were fewer: `sum(sizes)^2 / sum(sizes^2)`, the effective number of Kish, "Survey
    Sampling", 1965. The result is at least 1.
    """
    sizes = np.asarray(sizes, float)
    return max(1.0, float(sizes.sum() ** 2 / np.sum(sizes**2)) - 1)


def times_drawn(random, samples, count):
    """Returns `[samples, count]`: how often each of `count` things is in a resample of as many."""
    draws = random.integers(count, size=(samples, count))
    draws += count * np.arange(samples)[:, None]
    return np.bincount(draws.ravel(), minlength=samples * count).reshape(samples, count)


# Below it is what rounding leaves of no error.
SMALLEST_ERROR = 1e-12


@dataclass(frozen=True)
class AllPairs:
    """All pairs of things, as arrays `[N, N]`: of the first and the second of a pair.

    `differences` are how much higher the mean of the first is, `widths` half the widths of the intervals around them,
    which hold for all pairs together, and `p_values` are corrected for the number of pairs.
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

    `variances` `[N]` are of the mean of each thing over its seeds; the degrees of freedom of each are such as the
    number of seeds less 1.
    """

    variances: np.ndarray
    degrees: float


def all_pairs(means, resampled, degrees, seeds=None):
    """Compares each thing with each other by a bootstrap, and returns `AllPairs`.

    Means are `[N]`, and those of each resample `[samples, N]`, with degrees of freedom as of `degrees_of`. `seeds` are
    errors that the resamples lack; None if there are none.

    The statistic of a pair is its difference in standard errors, t. A resample's largest error of any pair in standard
    errors, max |t*|, has the distribution that the largest |t| would have if nothing differed and standard errors were
    known. They are estimated from a few classes or seeds, so each |t| is first replaced by the normal value with the
    same p-value, by the t distribution with the degrees of freedom of the pair (Satterthwaite, 1946). The 0.95 quantile
    of max |t*| then says how wide the intervals are: with a probability of about 95% all of them hold, and no pair is
    called different by chance. The p-value of a pair is the fraction of resamples with a max |t*| of its |t| or more,
    its own included. Pairs that have much in common, such as two pairs with one thing in both, cost less than with
    Bonferroni or Holm. See Westfall and Young, "Resampling-Based Multiple Testing", 1993, section 2.4, the single-step
    method.
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
