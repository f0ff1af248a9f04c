"""Bootstrap confidence intervals, and corrected comparisons of all pairs of several results."""

from dataclasses import dataclass

import numpy as np

# Fraction of the resampled means that an interval contains.
CONFIDENCE = 0.95


def bootstrap_intervals(per_query, clusters=None, *, samples=2000, seed=0, memory=2**22):
    """Computes percentile bootstrap confidence intervals of the mean of each metric: its name to `[low, high]`.

    A resample draws as many queries as there are, with replacement. The interval leaves out the lowest and the highest
    2.5% of the means of all resamples. With clusters `[Q]`, such as the class label of each query, a resample draws
    whole clusters. Queries of one class share their positives, so they contain less information than the same number of
    independent queries, and the interval over classes is wider.

    Values `[Q]` per query come from `Scores`. For the difference between two models, pass the difference for each
    query. All metrics use the same resamples, which the seed determines. `memory` is the number of bytes for the
    resamples that are drawn at once. See Efron and Tibshirani, "An Introduction to the Bootstrap", 1993, chapter 13.
    """
    if not per_query:
        raise ValueError("Bootstrap intervals need a metric that is a mean over queries, such as recall_at_1.")
    values = np.stack(list(per_query.values()), axis=1)
    means = resampled_means(values, clusters, samples=samples, seed=seed, memory=memory)
    return dict(zip(per_query, percentile_intervals(means), strict=True))


def class_intervals(scores, labels):
    """Returns bootstrap intervals over classes of the means over queries.

    The result is `{}` if there is no such mean, or if the queries are of a single class. `labels` `[N]` are the labels
    of the split that the `Scores` were computed for.
    """
    classes = None if scores.queries is None else labels[scores.queries]
    if classes is None or len(np.unique(classes)) < 2:
        return {}
    return bootstrap_intervals(scores.per_query, classes)


def percentile_intervals(means):
    """Returns a list of intervals `[low, high]` from the means of resamples `[samples, M]`."""
    return np.quantile(means, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2], axis=0).T.tolist()


def resampled_means(values, clusters=None, *, samples=2000, seed=0, memory=2**22):
    """Returns the means `[samples, M]` of resamples of values `[Q, M]`, as in `bootstrap_intervals`."""
    random = np.random.default_rng(seed)
    places = np.arange(len(values)) if clusters is None else np.unique(clusters, return_inverse=True)[1]
    if len(places) != len(values):
        raise ValueError(f"Expected one cluster for each of the {len(values)} queries. Received: {len(places)}.")
    sizes = np.bincount(places)
    if len(sizes) < 2:
        what = "queries" if clusters is None else "classes with queries"
        raise ValueError(f"Bootstrap intervals need at least two {what} to draw from. Found {len(sizes)}.")
    sums = np.stack([*(np.bincount(places, column) for column in values.T), sizes], axis=1)
    # Three arrays exist at once: the draws, how often each cluster is drawn, and the same as float64.
    block = max(1, memory // (3 * 8 * len(sizes)))
    totals = [times_drawn(random, min(block, samples - start), len(sizes)) @ sums for start in range(0, samples, block)]
    totals = np.concatenate(totals)
    return totals[:, :-1] / totals[:, -1:]


def degrees_of(sizes):
    """Returns the degrees of freedom of resamples of clusters: n - 1 for n clusters of one size, otherwise less.

    Sizes are the numbers of queries in each cluster, or 1 for each query if queries are drawn. If few clusters have
    most of the queries, means vary as if there were fewer clusters: `sum(sizes)^2 / sum(sizes^2)`, Kish's effective
    number ("Survey Sampling", 1965). The result is at least 1.
    """
    sizes = np.asarray(sizes, float)
    return max(1.0, float(sizes.sum() ** 2 / np.sum(sizes**2)) - 1)


def times_drawn(random, samples, count):
    """Returns `[samples, count]`: how often each of `count` items is in a resample of `count` draws."""
    draws = random.integers(count, size=(samples, count))
    draws += count * np.arange(samples)[:, None]
    return np.bincount(draws.ravel(), minlength=samples * count).reshape(samples, count)


# Smaller errors are rounding errors.
SMALLEST_ERROR = 1e-12


@dataclass(frozen=True)
class AllPairs:
    """Comparisons of all pairs of items, as arrays `[N, N]` over the first and the second item of a pair.

    `differences` are the mean of the first item minus the mean of the second. `widths` are half the widths of the
    intervals around them, which hold for all pairs together. `p_values` are corrected for the number of pairs.
    """

    differences: np.ndarray
    widths: np.ndarray
    p_values: np.ndarray

    def interval(self, first, second):
        """Returns the mean of the first minus the mean of the second, and the ends of its interval."""
        difference, width = self.differences[first, second], self.widths[first, second]
        return float(difference), float(difference - width), float(difference + width)

    def larger(self):
        """Returns booleans `[N, N]`: whether the first mean is larger by more than chance."""
        return self.differences > np.maximum(self.widths, SMALLEST_ERROR)


@dataclass(frozen=True)
class Seeds:
    """Errors of means over a few seeds, which are independent between items.

    `variances` `[N]` are the variances of each item's mean over its seeds. `degrees` are their degrees of freedom, for
    example the number of seeds minus 1.
    """

    variances: np.ndarray
    degrees: float


def all_pairs(means, resampled, degrees, seeds=None):
    """Compares each item with each other item by a bootstrap. Returns `AllPairs`.

    Means are `[N]`, and the means of each resample `[samples, N]`, with degrees of freedom from `degrees_of`. `seeds`
    are errors that the resamples do not contain, or None if there are none.

    The statistic of a pair is its difference in standard errors, t. The largest error of any pair in a resample, in
    standard errors, is max |t*|. It has the distribution that the largest |t| would have if nothing differed and
    standard errors were known. They are estimated from a few classes or seeds, so each |t| is first replaced by the
    normal value with the same p-value, by the t distribution with the degrees of freedom of the pair (Satterthwaite,
    1946). The 0.95 quantile of max |t*| then determines how wide the intervals are: with a probability of about 95%,
    all of them hold, and no pair is called different by chance. The p-value of a pair is the fraction of resamples,
    counting the data as one more, in which max |t*| is at least the pair's |t|. If pairs have much in common, such as
    two pairs that share an item, this costs less than Bonferroni's or Holm's method. See Westfall and Young,
    "Resampling-Based Multiple Testing", 1993, section 2.4, the single-step method.
    """
    means = np.asarray(means)
    # The variance over resamples of n classes is (n - 1) / n times the variance over samples of n new classes.
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
    # An item has no error relative to itself, nor do items that differ equally in every draw.
    known = np.where(scales > SMALLEST_ERROR, scales, np.inf)
    freedom = np.where(squares > 0, variances**2 / np.where(squares > 0, squares, 1), degrees)
    largest = np.max(
        [np.max(np.abs(errors - errors[:, [first]]) / known[first], axis=1) for first in range(len(means))], axis=0
    )
    differences = means[:, None] - means[None, :]
    return AllPairs(differences, *single_step(differences, scales, freedom, largest))


def single_step(differences, scales, freedom, largest):
    """Corrects differences for their number by the method of `all_pairs`. Returns half-widths and p-values.

    Args:
        differences: Array of any shape.
        scales: Their standard errors, in the same shape.
        freedom: Their degrees of freedom, in the same shape.
        largest: The largest error of any difference in each resample, in standard errors, `[samples]`.

    Returns:
        Half the widths of the simultaneous intervals, and the corrected p-values, in the same shape.
    """
    # Imported here because it takes a part of a second, and most commands that import this module do not need it.
    from scipy.stats import norm, t

    known = np.where(scales > SMALLEST_ERROR, scales, np.inf)
    certain = np.where(np.abs(differences) > SMALLEST_ERROR, np.inf, 0.0)
    alone = t.sf(np.where(np.isfinite(known), np.abs(differences) / known, certain), freedom)
    as_large = len(largest) - np.searchsorted(np.sort(largest), norm.isf(alone))
    # Resamples of very few classes have no large errors. The correction must never make a difference more certain.
    tail = min(norm.sf(np.quantile(largest, CONFIDENCE)), (1 - CONFIDENCE) / 2)
    p_values = np.maximum((1 + as_large) / (1 + len(largest)), 2 * alone)
    return t.isf(tail, freedom) * scales, p_values
