"""Bootstrap intervals: how far the mean over queries may be from that over other queries of the same kind."""

import numpy as np

# The part of the resampled means that lies within an interval.
CONFIDENCE = 0.95


def bootstrap_intervals(per_query, clusters=None, *, samples=2000, seed=0, memory=2**22):
    """Computes percentile bootstrap intervals of the mean of each metric.

    A resample draws as many queries as there are, with replacement; the interval leaves out the lowest and the highest
    2.5% of the means of all resamples. With clusters, a resample draws whole clusters: queries of one class share their
    positives, so they tell less than as many independent queries, and the interval over classes is wider.

    The interval of the paired difference of two models is that of their differences for each query. All metrics see the
    same resamples. See Efron and Tibshirani, "An Introduction to the Bootstrap", 1993, chapter 13.

    Args:
        per_query: metric name to values `[Q]`, as in `Scores`.
        clusters: `[Q]` integers, such as the class number of each query; None to draw queries.
        samples: number of resamples.
        seed: determines the resamples.
        memory: bytes for the resamples that are drawn at once.

    Returns:
        Metric name to `[low, high]`.
    """
    if not per_query:
        raise ValueError("Bootstrap intervals need a metric that is a mean over queries, such as recall_at_1.")
    values = np.stack(list(per_query.values()), axis=1)
    means = resampled_means(values, clusters, samples=samples, seed=seed, memory=memory)
    return dict(zip(per_query, percentile_intervals(means), strict=True))


def class_intervals(scores, labels):
    """Returns bootstrap intervals over classes of the means over queries; `{}` without such means or several classes.

    Args:
        scores: `Scores`.
        labels: `[N]` class numbers of the split that they are of.
    """
    classes = None if scores.queries is None else labels[scores.queries]
    if classes is None or len(np.unique(classes)) < 2:
        return {}
    return bootstrap_intervals(scores.per_query, classes)


def percentile_intervals(means):
    """Returns a list of intervals `[low, high]` of the means of resamples `[samples, M]`."""
    return np.quantile(means, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2], axis=0).T.tolist()


def resampled_means(values, clusters=None, *, samples=2000, seed=0, memory=2**22):
    """Returns the means `[samples, M]` of resamples of values `[Q, M]`.

    Args:
        values: `[Q, M]`.
        clusters, samples, seed, memory: as `bootstrap_intervals` takes them.
    """
    random = np.random.default_rng(seed)
    places = np.arange(len(values)) if clusters is None else np.unique(clusters, return_inverse=True)[1]
    if len(places) != len(values):
        raise ValueError(f"Expected a cluster for each of {len(values)} queries, received {len(places)}.")
    sizes = np.bincount(places)
    if len(sizes) < 2:
        what = "query" if clusters is None else "class with queries"
        raise ValueError(f"Bootstrap intervals need two or more to draw from; there is one {what}.")
    sums = np.stack([*(np.bincount(places, each) for each in values.T), sizes], axis=1)
    # Draws, how often each is drawn, and the same as float64.
    block = max(1, memory // (3 * 8 * len(sizes)))
    totals = [times_drawn(random, min(block, samples - start), len(sizes)) @ sums for start in range(0, samples, block)]
    totals = np.concatenate(totals)
    return totals[:, :-1] / totals[:, -1:]


def degrees_of(sizes):
    """Returns the degrees of freedom of resamples of clusters: of n clusters of one size n - 1, otherwise less.

    Where few clusters have most of the queries, means vary as if there were fewer: `sum(sizes)^2 / sum(sizes^2)`, the
    effective number of Kish, "Survey Sampling", 1965. The result is at least 1.

    Args:
        sizes: number of queries of each cluster; of queries that are drawn themselves, 1 for each.
    """
    sizes = np.asarray(sizes, float)
    return max(1.0, float(sizes.sum() ** 2 / np.sum(sizes**2)) - 1)


def times_drawn(random, samples, count):
    """Returns `[samples, count]`: how often each of `count` things is in a resample of as many."""
    draws = random.integers(count, size=(samples, count))
    draws += count * np.arange(samples)[:, None]
    return np.bincount(draws.ravel(), minlength=samples * count).reshape(samples, count)
