"""Accuracy of decisions about given pairs, by the threshold of other pairs."""

import numpy as np

from tfdml.evaluation.metrics.pair_accuracy_threshold import PairAccuracyThreshold
from tfdml.evaluation.ranks.exact_vectors import TIE
from tfdml.evaluation.verification.pair_counts import PairCounts


def verified(scores, same, folds, metrics=()):
    """Measures decisions about pairs as LFW does.

    Each part is decided by the threshold that is most accurate on the others; the accuracy is the mean over the parts.
    Metrics are over all pairs.

    Args:
        scores: `[P]` similarities of pairs.
        same: `[P]` booleans, whether a pair is of the same class.
        folds: `[P]` number of the part of each pair.
        metrics: list of `PairMetric`.

    Returns:
        `{"accuracy": mean, "standard_error": of it, "threshold": mean, "fold_accuracies": [...], metric: value, ...,
        "same": number of pairs, "different": number of pairs}`.
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
