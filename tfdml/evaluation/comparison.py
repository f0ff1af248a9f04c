"""Compares two models by the values of each query."""

import numpy as np

from tfdml.evaluation.bootstrap import bootstrap_intervals
from tfdml.evaluation.scores import Scores

# Values that differ by less are equal: what means over runs and galleries round to.
ROUNDING = 1e-9


def compare(first, second, metrics, clusters=None, *, samples=2000, seed=0):
    """Compares A and B, each one model or several that differ in their seed, by the same queries.

    The values of several models are averaged for each query.

    Args:
        first, second: lists of `Scores`, of A and of B.
        metrics: list of `RankMetric` to compare by.
        clusters, samples, seed: as `bootstrap_intervals` takes them.

    Returns:
        Metric name to `{"a": mean, "b": mean, "difference": b - a, "interval": [low, high], "better": "a", "b" or
        None}`; of several models also `a_std` and `b_std`, the standard deviation of their means. The better one is
        None if the interval contains 0.
    """
    a, b = (Scores.mean(several).per_query for several in (first, second))
    differences = {metric.name: b[metric.name] - a[metric.name] for metric in metrics}
    intervals = bootstrap_intervals(differences, clusters, samples=samples, seed=seed)
    found = {}
    for metric in metrics:
        name = metric.name
        found[name] = {
            "a": float(np.mean(a[name])),
            "b": float(np.mean(b[name])),
            "difference": float(np.mean(differences[name])),
            "interval": intervals[name],
            "better": _better(intervals[name], metric.larger_is_better),
            **_spread("a_std", first, name),
            **_spread("b_std", second, name),
        }
    return found


def right_alone(first, second):
    """Counts the queries whose nearest image is right for one of A and B alone; of several models, for more of them.

    Args:
        first, second: lists of `Scores`, of A and of B, with `recall_at_1`.

    Returns:
        `{"a": number, "b": number}`.
    """
    a, b = (Scores.mean(several).per_query["recall_at_1"] for several in (first, second))
    return {"a": int(np.sum(a - b > ROUNDING)), "b": int(np.sum(b - a > ROUNDING))}


def _better(interval, larger_is_better):
    low, high = interval
    if low <= 0 <= high:
        return None
    return "b" if (low > 0) == larger_is_better else "a"


def _spread(key, several, name):
    means = [np.mean(scores.per_query[name]) for scores in several]
    return {key: float(np.std(means, ddof=1))} if len(means) > 1 else {}
