"""Bootstrap intervals of what is computed of pairs: other classes would give other numbers."""

import dataclasses

import numpy as np

from tfdml.evaluation.bootstrap import percentile_intervals, times_drawn
from tfdml.evaluation.verification.class_counts import ClassCounts, thresholds_of
from tfdml.evaluation.verification.pair_counts import PairCounts


def pair_intervals(pairs, functions, *, samples=2000, seed=0):
    """Computes percentile bootstrap intervals over classes.

    A resample draws as many classes as there are, with replacement. A class that is drawn t times counts t times, with
    all pairs within it; of a pair of different classes, drawn t and u times, t + u - 1 stands for t * u, to which it is
    equal in the first order. So numbers of pairs for each class are enough, and none for each pair of classes. Between
    some hundred thresholds, pairs are not told apart.

    Args:
        pairs: `Pairs`.
        functions: name to a function from `PairCounts` to a number or None.
        samples: number of resamples.
        seed: determines the resamples.

    Returns:
        Name to `[low, high]`; None where no resample has a value.
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
    values = {name: [] for name in functions}
    random, total = np.random.default_rng(seed), rows.negatives.sum(axis=0)
    both = (rows.negatives + columns.negatives)[classes].astype(np.float64)
    for _ in range(samples):
        (times,) = times_drawn(random, 1, len(classes)).astype(np.float64)
        positives, negatives = times @ rows.positives[classes], np.maximum(times @ both - total, 0)
        if positives.any() and negatives.any():
            resampled = PairCounts(thresholds, positives, negatives)
            for name, function in functions.items():
                values[name].append(function(resampled))
    return {name: _interval(each) for name, each in values.items()}


def _interval(values):
    known = [value for value in values if value is not None]
    return percentile_intervals(np.array(known)[:, None])[0] if known else None
