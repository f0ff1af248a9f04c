"""Similarity thresholds: fitting, cross-validation, and confidence intervals over classes."""

import dataclasses
import math

import numpy as np

from tfdml.evaluation.metrics.pairs import PairAccuracyThreshold
from tfdml.evaluation.ranks.exact_vectors import TIE
from tfdml.evaluation.statistics import percentile_intervals, times_drawn
from tfdml.evaluation.verification.pairs import ClassCounts, PairCounts, least_count, thresholds_of
from tfdml.evaluation.verification.text_pairs import TextPairs


def verified(scores, same, folds, metrics=()):
    """Measures decisions about pairs `[P]` from their similarities, with cross-validation as in LFW.

    Each of the folds `[P]` is decided with the threshold that is most accurate on the other folds. The accuracy is the
    mean over the folds. Metrics, a list of `PairMetric`, are computed from all pairs.

    Returns `{"accuracy": mean, "standard_error": of the mean, "threshold": mean, "fold_accuracies": [...], metric:
    value, ..., "same": number of pairs, "different": number of pairs}`.
    """
    scores, same, folds = np.asarray(scores, np.float64), np.asarray(same, bool), np.asarray(folds)
    accuracies, thresholds = [], []
    for fold in np.unique(folds):
        here = folds == fold
        thresholds.append(PairAccuracyThreshold().value(PairCounts.of_scores(scores[~here], same[~here], TIE)))
        accuracies.append(float(np.mean((scores[here] >= thresholds[-1]) == same[here])))
    counts = PairCounts.of_scores(scores, same, TIE)
    return {
        "accuracy": float(np.mean(accuracies)),
        "standard_error": float(np.std(accuracies, ddof=1) / np.sqrt(len(accuracies))),
        "threshold": float(np.mean(thresholds)),
        "fold_accuracies": accuracies,
        **{metric.name: metric.value(counts) if metric.is_defined(counts) else None for metric in metrics},
        "same": int(same.sum()),
        "different": int((~same).sum()),
    }


# Number of finer thresholds, see `thresholds_of`, and bytes for the draws of classes that are in memory at once.
FINER, MEMORY = 1500, 2**22


def pair_intervals(pairs, functions, *, samples=2000, seed=0):
    """Returns bootstrap intervals over classes, name to `[low, high]`; for the arguments, see `resampled_pairs`.

    An interval is None if no resample has a value.
    """
    values = resampled_pairs(pairs, functions, samples=samples, seed=seed)
    finite = {name: of_draws[np.isfinite(of_draws)] for name, of_draws in values.items()}
    return {
        name: percentile_intervals(of_draws[:, None])[0] if len(of_draws) else None for name, of_draws in finite.items()
    }


def metric_intervals(pairs, metrics, **options):
    """Returns the `pair_intervals` of a list of `PairMetric` objects by name."""
    return pair_intervals(pairs, {metric.name: metric.of_draws(pairs) for metric in metrics}, **options)


def resampled_pairs(pairs, functions, *, samples=2000, seed=0):
    """Returns values `[samples]`, by name, of resamples of the classes of pairs, NaN if one has none.

    The pairs are `RetrievalPairs` or `TextPairs`.

    A resample draws as many classes as there are, with replacement. If a class is drawn t times, all pairs within it
    count t times. A pair of different classes, drawn t and u times, counts t + u - 1 times instead of t * u times,
    which is equal to first order. So the numbers of pairs of each class are enough, and none are needed for each pair
    of classes. They are counted between a few hundred thresholds. Between two thresholds, similarities are assumed to
    be distributed as in all pairs together. The same seed draws the same classes for any embeddings.

    Resamples of `TextPairs` draw the classes of texts, and a pair counts as often as the class of its text is drawn.

    Functions, by name, map the `PairCounts` of a resample, and how often each class is drawn, `[C]`, to a number or
    None.
    """
    classes = pairs.classes
    if len(classes) < 2:
        raise ValueError("Bootstrap intervals over classes need at least two classes to draw from. Found one.")
    thresholds = thresholds_of(pairs.counts)
    finer, places, parts = _spread(pairs.counts, thresholds)
    if isinstance(pairs, TextPairs):
        (of_class, of_others), total = pairs.of_classes(thresholds), 0.0
    else:
        of_class, of_others = (each[classes] for each in _counted(pairs, thresholds))
        total = of_others.sum(axis=0) / 2
    random, values = np.random.default_rng(seed), {name: np.full(samples, np.nan) for name in functions}
    drawn, block = np.zeros(classes.max() + 1), max(1, MEMORY // (8 * len(classes)))
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
    """Returns numbers `[C, K]` of the pairs within each class, and of each class with others, each pair once.

    A pair of two queries that are both in the gallery occurs in both directions, and each direction counts 0.5.
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
    """Returns how the pairs of `PairCounts` are distributed between thresholds `[K]`, which are some of its scores.

    The result is finer thresholds `[F]`; for each, the place `[F]` of the largest of `thresholds` that is not above it;
    and, for each kind of pair, the fraction `[2, F]` of that threshold's pairs that it has.
    """
    finer = np.union1d(thresholds, thresholds_of(counts, FINER))
    places = np.searchsorted(thresholds, finer, side="right") - 1
    firsts = np.searchsorted(counts.scores, finer)
    numbers = np.stack([np.add.reduceat(each, firsts) for each in (counts.positives, counts.negatives)])
    totals = np.stack([np.bincount(places, each) for each in numbers])[:, places]
    return finer, places, numbers / np.maximum(totals, 1)


def _advised_rate(negatives):
    """Returns a sentence with the smallest rate that this many negative pairs can show, or nothing if there is none."""
    if negatives < 2:
        return ""
    # Two digits, rounded up, because a smaller rate needs more pairs. The tolerance corrects rounding errors.
    unit = 10.0 ** (math.floor(math.log10(1 / negatives)) - 1)
    return f" Set --far={math.ceil(1 / negatives / unit - 1e-6) * unit:.2g} or more, or use images of more classes."


def fit_threshold(pairs, *, far=None, precision=None, samples=2000, seed=0):
    """Fits the threshold that accepts most pairs at a false accept rate or at a precision.

    Exactly one of the two must be set. `far` is the highest false accept rate, and `precision` the lowest fraction of
    accepted pairs that are of the same class. For the other arguments, see `resampled_pairs`.

    Returns `{"threshold": similarity or minus a distance, "interval": its interval over classes, "true_accept_rate":
    rate, "false_accept_rate": rate, "precision": fraction, "accepted": {"same": number, "different": number}, "pairs":
    {"same": number, "different": number}}`.
    """
    counts = pairs.counts
    positives, negatives = counts.totals
    needed = least_count(far) if far else 1
    if not positives or negatives < needed:
        rate = f"A false accept rate of {far}" if far else f"A precision of {precision}"
        raise ValueError(
            f"{rate} needs at least one pair of the same class and {needed:,} pairs of different classes. Found "
            f"{positives:,} and {negatives:,}.{_advised_rate(negatives) if positives and far else ''}"
        )

    def place_of(counts):
        """Returns the place of the lowest score that reaches the rate or the precision, or S if none does."""
        if far:
            return counts.place_at(far)
        right, wrong = counts.accepted
        # In resamples, some scores may have no pairs.
        enough = (right >= (right + wrong) * precision * (1 - 1e-12)) & (right > 0)
        return int(enough.argmax()) if enough.any() else len(counts.scores)

    place = place_of(counts)
    if place == len(counts.scores):
        what = f"a false accept rate of {far}, because the most similar pair is of different classes"
        if precision:
            right, wrong = counts.accepted
            what = f"a precision of {precision}. The highest possible is {np.max(right / (right + wrong)):.3g}"
        raise ValueError(f"No threshold accepts any pair with {what}. Choose another rate.")
    drawn = {"threshold": lambda counts, _: counts.above(place_of(counts))}
    interval = pair_intervals(pairs, drawn, samples=samples, seed=seed)["threshold"]
    kinds, accepted = ("same", "different"), [int(each[place]) for each in counts.accepted]
    rates = [number / total for number, total in zip(accepted, counts.totals, strict=True)]
    return {
        "threshold": counts.above(place),
        "interval": interval,
        "true_accept_rate": rates[0],
        "false_accept_rate": rates[1],
        "precision": accepted[0] / sum(accepted),
        "accepted": dict(zip(kinds, accepted, strict=True)),
        "pairs": dict(zip(kinds, counts.totals, strict=True)),
    }
