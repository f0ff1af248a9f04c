"""Bootstrap intervals of what is computed of pairs: other classes would give other numbers."""

import dataclasses

import numpy as np

from tfdml.evaluation.bootstrap import percentile_intervals, times_drawn
from tfdml.evaluation.verification.class_counts import ClassCounts, thresholds_of
from tfdml.evaluation.verification.pair_counts import PairCounts


def pair_intervals(pairs, functions, *, samples=2000, seed=0):
    """Computes percentile bootstrap intervals over classes.

    Args:
        pairs: `Pairs`.
        functions: name to a function from `PairCounts` to a number or None.
        samples, seed: as `resampled_pairs` takes them.

    Returns:
        Name to `[low, high]`; None where no resample has a value.
    """
    # Of what is drawn they need no more.
    of_draws = {name: lambda counts, _, function=function: function(counts) for name, function in functions.items()}
    return intervals_of(resampled_pairs(pairs, of_draws, samples=samples, seed=seed))


def metric_intervals(pairs, metrics, *, samples=2000, seed=0):
    """Computes the same of metrics, name to `[low, high]` or None.

    Args:
        pairs: `Pairs`.
        metrics: list of `PairMetric`.
        samples, seed: as `resampled_pairs` takes them.
    """
    of_draws = {metric.name: metric.of_draws(pairs) for metric in metrics}
    return intervals_of(resampled_pairs(pairs, of_draws, samples=samples, seed=seed))


def intervals_of(values):
    """Returns name to `[low, high]` of what `resampled_pairs` returns; None where no resample has a value."""
    return {name: _interval(each[np.isfinite(each)]) for name, each in values.items()}


def resampled_pairs(pairs, functions, *, samples=2000, seed=0):
    """Computes values of resamples of classes.

    A resample draws as many classes as there are, with replacement. A class that is drawn t times counts t times, with
    all pairs within it; of a pair of different classes, drawn t and u times, t + u - 1 stands for t * u, to which it is
    equal in the first order. So numbers of pairs for each class are enough, and none for each pair of classes. Between
    some hundred thresholds, pairs are not told apart. The same seed draws the same classes for any embeddings.

    Args:
        pairs: `Pairs`.
        functions: name to a function of the `PairCounts` of a resample and how often each class is drawn, `[C]`, that
            returns a number or None.
        samples: number of resamples.
        seed: determines the resamples.

    Returns:
        Name to values `[samples]`, NaN where a resample has none.
    """
    thresholds = thresholds_of(pairs.counts)
    rows = ClassCounts.of(pairs, thresholds)
    columns = rows
    if not np.array_equal(pairs.queries, pairs.gallery):
        turned = dataclasses.replace(pairs, queries=pairs.gallery, gallery=pairs.queries)
        columns = ClassCounts.of(turned, thresholds)
    classes = np.unique(pairs.search.labels[np.union1d(pairs.queries, pairs.gallery)])
    if len(classes) < 2:
        raise ValueError("Bootstrap intervals over classes need two or more to draw from; there is one class.")
    values = {name: np.full(samples, np.nan) for name in functions}
    random, total = np.random.default_rng(seed), rows.negatives.sum(axis=0)
    both, drawn = (rows.negatives + columns.negatives)[classes].astype(np.float64), np.zeros(len(rows.positives))
    for sample in range(samples):
        (times,) = times_drawn(random, 1, len(classes)).astype(np.float64)
        positives, negatives = times @ rows.positives[classes], np.maximum(times @ both - total, 0)
        drawn[classes] = times
        if positives.any() and negatives.any():
            resampled = PairCounts(thresholds, positives, negatives)
            for name, function in functions.items():
                value = function(resampled, drawn)
                values[name][sample] = np.nan if value is None else value
    return values


def _interval(values):
    return percentile_intervals(values[:, None])[0] if len(values) else None
