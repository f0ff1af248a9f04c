"""Fits a threshold of similarity on pairs."""

import numpy as np

from tfdml.evaluation.verification.pair_counts import least_count
from tfdml.evaluation.verification.pair_intervals import pair_intervals


def fit_threshold(pairs, *, far=None, precision=None, samples=2000, seed=0):
    """Fits the threshold that accepts most pairs at a false accept rate or a precision.

    Args:
        pairs: `Pairs`.
        far: the highest false accept rate.
        precision: the lowest fraction of accepted pairs that are of the same class; one of both is given.
        samples, seed: as `pair_intervals` takes them.

    Returns:
        `{"threshold": similarity, or minus a distance, "interval": of it over classes, "true_accept_rate": rate,
        "false_accept_rate": rate, "precision": fraction, "accepted": {"same": number, "different": number}, "pairs":
        the same of all}`.
    """
    counts = pairs.counts
    _check(counts, far, precision)
    place_of = (lambda each: each.place_at(far)) if far else (lambda each: _place_of_precision(each, precision))
    place = place_of(counts)
    if place == len(counts.scores):
        raise _nothing_accepted(counts, far, precision)
    found = pair_intervals(pairs, {"threshold": lambda each: each.above(place_of(each))}, samples=samples, seed=seed)
    kinds, accepted = ("same", "different"), [int(each[place]) for each in counts.accepted]
    rates = [number / total for number, total in zip(accepted, counts.totals, strict=True)]
    return {
        "threshold": counts.above(place),
        "interval": found["threshold"],
        "true_accept_rate": rates[0],
        "false_accept_rate": rates[1],
        "precision": accepted[0] / sum(accepted),
        "accepted": dict(zip(kinds, accepted, strict=True)),
        "pairs": dict(zip(kinds, counts.totals, strict=True)),
    }


def _check(counts, far, precision):
    positives, negatives = counts.totals
    needed = least_count(far) if far else 1
    if not positives or negatives < needed:
        rate = f"A false accept rate of {far}" if far else f"A precision of {precision}"
        raise ValueError(
            f"{rate} needs a pair of the same class, and of different classes {needed:,} or more; there are "
            f"{positives:,} and {negatives:,}."
        )


def _nothing_accepted(counts, far, precision):
    positives, negatives = counts.accepted
    reached = np.max(positives / (positives + negatives))
    what = (
        f"a precision of {precision}; the highest is {reached:.3g}"
        if precision
        else f"a false accept rate of {far}: a pair of different classes is the most similar"
    )
    return ValueError(f"No threshold accepts any pair with {what}. Choose another rate.")


def _place_of_precision(counts, precision):
    """Returns the place of the lowest score of which those pairs that it accepts have this precision; S if none has."""
    positives, negatives = counts.accepted
    enough = positives >= (positives + negatives) * precision * (1 - 1e-12)
    # Scores of resamples may have no pairs.
    enough &= positives > 0
    return int(enough.argmax()) if enough.any() else len(counts.scores)
