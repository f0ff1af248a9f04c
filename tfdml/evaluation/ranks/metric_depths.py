"""How many of the nearest images decide metrics of ranks."""

import functools

import numpy as np


def depths_of(metrics):
    """Returns the function `depths` of `positive_ranks`, or None if the ranks of all positives matter.

    Args:
        metrics: list of `RankMetric`.
    """
    of_all = [metric for metric in metrics if not metric.first_only]
    if of_all and np.isinf(deepest(of_all, np.ones(1))).any():
        return None
    return functools.partial(_first_and_others, metrics, of_all)


def deepest(metrics, positives):
    """Returns how many of the nearest images decide any of the metrics, for each query `[B]`; 0 for no metric.

    Args:
        metrics: list of `RankMetric`.
        positives: `[B]` number of positives of each query.
    """
    needed = [np.broadcast_to(metric.depth(positives), positives.shape) for metric in metrics]
    return np.max(needed, axis=0) if needed else np.zeros(positives.shape)


def _first_and_others(metrics, of_all, positives):
    return deepest(metrics, positives), deepest(of_all, positives)
