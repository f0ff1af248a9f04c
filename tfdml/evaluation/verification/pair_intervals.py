"""Bootstrap intervals of what is computed of pairs: other classes would give other numbers."""

import dataclasses

import numpy as np

from tfdml.evaluation.bootstrap import percentile_intervals, times_drawn
from tfdml.evaluation.verification.class_counts import ClassCounts, thresholds_of
from tfdml.evaluation.verification.pair_counts import PairCounts

# Finer thresholds of each kind, see `thresholds_of`, and bytes for the draws of classes that are in memory at once.
FINER, MEMORY = 1500, 2**22


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
    equal in the first order. So numbers of pairs for each class are enough, and none for each pair of classes. They are
    counted between some hundred thresholds; between two of these, similarities are spread as those of all pairs are.
    The same seed draws the same classes for any embeddings.

    Args:
        pairs: `Pairs`.
        functions: name to a function of the `PairCounts` of a resample and how often each class is drawn, `[C]`, that
            returns a number or None.
        samples: number of resamples.
        seed: determines the resamples.

    Returns:
        Name to values `[samples]`, NaN where a resample has none.
    """
    classes = np.unique(pairs.task.labels[np.union1d(pairs.queries, pairs.gallery)])
    if len(classes) < 2:
        raise ValueError("Bootstrap intervals over classes need two or more to draw from; there is one class.")
    thresholds = thresholds_of(pairs.counts)
    finer, places, parts = _spread(pairs.counts, thresholds)
    of_class, of_others = (each[classes] for each in _counted(pairs, thresholds))
    random, total = np.random.default_rng(seed), of_others.sum(axis=0) / 2
    values = {name: np.full(samples, np.nan) for name in functions}
    drawn, block = np.zeros(pairs.task.labels.max() + 1), max(1, MEMORY // (8 * len(classes)))
    for start in range(0, samples, block):
        times = times_drawn(random, min(block, samples - start), len(classes)).astype(np.float64)
        positives, negatives = times @ of_class, np.maximum(times @ of_others - total, 0)
        for sample in np.flatnonzero(positives.any(axis=1) & negatives.any(axis=1)):
            drawn[classes] = times[sample]
            counts = PairCounts(finer, parts[0] * positives[sample, places], parts[1] * negatives[sample, places])
            for name, function in functions.items():
                value = function(counts, drawn)
                values[name][start + sample] = np.nan if value is None else value
    return values


def _counted(pairs, thresholds):
    """Returns numbers `[C, K]` of the pairs within each class, and of those of each class with others, each pair once.

    A pair of two queries that are both in the gallery comes both ways, and counts half each way.
    """
    rows = columns = both = ClassCounts.of(pairs, thresholds)
    if not np.array_equal(pairs.queries, pairs.gallery):
        shared = pairs.queries[np.isin(pairs.queries, pairs.gallery)]
        columns, both = (
            ClassCounts.of(dataclasses.replace(pairs, queries=queries, gallery=gallery), thresholds)
            for queries, gallery in ((pairs.gallery, pairs.queries), (shared, shared))
        )
    return rows.positives - both.positives / 2, rows.negatives + columns.negatives - both.negatives


def _spread(counts, thresholds):
    """Returns thresholds between those given, and how pairs are spread over them.

    Args:
        counts: `PairCounts` of all pairs.
        thresholds: `[K]`, of its scores.

    Returns:
        Finer thresholds `[F]`, the place `[F]` in `thresholds` of the one at or below each, and which part `[2, F]` of
        that one's pairs of each kind each has.
    """
    finer = np.union1d(thresholds, thresholds_of(counts, FINER))
    places = np.searchsorted(thresholds, finer, side="right") - 1
    firsts = np.searchsorted(counts.scores, finer)
    numbers = np.stack([np.add.reduceat(each, firsts) for each in (counts.positives, counts.negatives)])
    totals = np.stack([np.bincount(places, each) for each in numbers])[:, places]
    return finer, places, numbers / np.maximum(totals, 1)


def _interval(values):
    return percentile_intervals(values[:, None])[0] if len(values) else None
