"""Compares models by the values of each query."""

import itertools

import numpy as np

from tfdml.evaluation.scores import Scores
from tfdml.evaluation.statistics import all_pairs, degrees_of, percentile_intervals, resampled_means
from tfdml.evaluation.verification.thresholds import resampled_pairs


def compare(first, second, metrics, clusters=None, *, samples=2000, seed=0):
    """Compares A and B, each one model or several that differ in their seed, by the same queries.

    The values of several models are averaged for each query. The interval is that of `all_pairs`, which allows for few
    classes.

    Args:
        first, second: lists of `Scores`, of A and of B.
        metrics: list of `RankMetric` to compare by.
        clusters, samples, seed: as `bootstrap_intervals` takes them.

    Returns:
        Metric name to `{"a": mean, "b": mean, "difference": b - a, "interval": [low, high], "better": "a", "b" or
        None}`; of several models also `a_std` and `b_std`, the standard deviation of their means. The better one is
        None if the interval contains 0.
    """
    found, groups = {}, {"a": first, "b": second}
    for name, larger_is_better, means, _, pairs in _of_queries(groups, metrics, clusters, samples, seed):
        difference, *interval = pairs.interval(1, 0)
        found[name] = {
            **dict(zip(groups, means.tolist(), strict=True)),
            "difference": difference,
            "interval": interval,
            "better": _better(interval, larger_is_better),
            **_spread("a_std", first, name),
            **_spread("b_std", second, name),
        }
    return found


def compare_all(groups, metrics, clusters=None, *, samples=2000, seed=0):
    """Compares all pairs of groups by the same queries, with a correction for how many pairs there are.

    Each group is one model or several that differ in their seed, whose values are averaged for each query. Intervals
    and p-values of pairs are those of `all_pairs`, for all pairs of a metric together.

    Args:
        groups: name of the group to the list of its `Scores`.
        metrics: list of `RankMetric` to compare by.
        clusters, samples, seed: as `bootstrap_intervals` takes them.

    Returns:
        Metric name to the name of each group to `{"mean": mean, "interval": [low, high]}`, of several models also
        `std`, the standard deviation of their means; and `pairs`, a list of `{"first": name, "second": name,
        "difference": second - first, "interval": [low, high], "p": p-value, "better": name or None}`.
    """
    found = {}
    for name, larger_is_better, means, resampled, pairs in _of_queries(groups, metrics, clusters, samples, seed):
        alone = zip(groups, means.tolist(), percentile_intervals(resampled), strict=True)
        found[name] = {
            **{
                group: {"mean": mean, "interval": interval, **_spread("std", groups[group], name)}
                for group, mean, interval in alone
            },
            "pairs": _pairs(groups, pairs, larger_is_better),
        }
    return found


def _of_queries(groups, metrics, clusters, samples, seed):
    """Yields of each metric its name and direction, the groups' means, those of resamples, and their `AllPairs`."""
    values = {name: Scores.mean(several).per_query for name, several in groups.items()}
    for metric in metrics:
        of_queries = np.stack([each[metric.name] for each in values.values()], axis=1)
        resampled = resampled_means(of_queries, clusters, samples=samples, seed=seed)
        sizes = np.ones(len(of_queries)) if clusters is None else np.unique(clusters, return_counts=True)[1]
        means = of_queries.mean(axis=0)
        pairs = all_pairs(means, resampled, degrees_of(sizes))
        yield metric.name, metric.larger_is_better, means, resampled, pairs


def compare_pairs(groups, metrics, *, samples=2000, seed=0):
    """Compares metrics of pairs of groups of models, by resamples of classes that are the same for all.

    Args:
        groups: name of the group to the `Pairs` of its models, whose values are averaged.
        metrics: list of `PairMetric`.
        samples, seed: as `resampled_pairs` takes them.

    Returns:
        What `compare` returns for two groups, called `a` and `b`, and `compare_all` for more.
    """
    values = {
        name: [{metric.name: metric.value_of_pairs(pairs) for metric in metrics} for pairs in group]
        for name, group in groups.items()
    }
    missing = [name for group in values.values() for each in group for name, value in each.items() if value is None]
    if missing:
        raise ValueError(f"{missing[0]} has no value with so few pairs. Choose other metrics.")
    resampled = {}
    for name, group in groups.items():
        draws = [
            resampled_pairs(
                pairs, {metric.name: metric.of_draws(pairs) for metric in metrics}, samples=samples, seed=seed
            )
            for pairs in group
        ]
        resampled[name] = {metric.name: np.mean([each[metric.name] for each in draws], axis=0) for metric in metrics}
    pairs = next(iter(groups.values()))[0]
    images = pairs.task.labels[np.union1d(pairs.queries, pairs.gallery)]
    found, degrees = {}, degrees_of(np.unique(images, return_counts=True)[1])
    for metric in metrics:
        of_runs = {name: [each[metric.name] for each in several] for name, several in values.items()}
        draws = np.stack([each[metric.name] for each in resampled.values()], axis=1)
        draws = draws[np.isfinite(draws).all(axis=1)]
        if not len(draws):
            raise ValueError(f"{metric.name} has no value in any resample of so few classes. Choose other metrics.")
        found[metric.name] = _of_values(of_runs, draws, degrees, metric.larger_is_better)
    return found


def _of_values(of_runs, draws, degrees, larger_is_better):
    """Compares groups by the values of their runs, name to list, and those of resamples `[samples, groups]`."""
    names, means = list(of_runs), [float(np.mean(several)) for several in of_runs.values()]
    deviations = [float(np.std(several, ddof=1)) if len(several) > 1 else None for several in of_runs.values()]
    if len(names) == 2:
        difference, *interval = all_pairs(means, draws, degrees).interval(1, 0)
        spread = {f"{name}_std": each for name, each in zip("ab", deviations, strict=True) if each is not None}
        about = {"a": means[0], "b": means[1], "difference": difference, "interval": interval}
        return {**about, "better": _better(interval, larger_is_better), **spread}
    alone = {}
    for name, mean, interval, deviation in zip(names, means, percentile_intervals(draws), deviations, strict=True):
        alone[name] = {"mean": mean, "interval": interval, **({} if deviation is None else {"std": deviation})}
    return {**alone, "pairs": _pairs(names, all_pairs(means, draws, degrees), larger_is_better)}


def right_alone(groups):
    """Counts the queries that each group alone gets right, see `right_by_all`.

    Args:
        groups: name of the group to its `Scores`, with `recall_at_1`.
    """
    _, alone = right_by_all(groups)
    return {name: int(each.sum()) for name, each in alone.items()}


def right_by_all(scores):
    """Returns which queries each group gets right, in all its runs, and which no run of another group does.

    Args:
        scores: name of a group to the `Scores` of its runs, with `recall_at_1`.

    Returns:
        Two dictionaries of the groups' names to booleans `[Q]`: right, and right alone.
    """
    found = {name: np.array([each.per_query["recall_at_1"] > 0.5 for each in group]) for name, group in scores.items()}
    right = {name: each.all(axis=0) for name, each in found.items()}
    groups = np.sum([each.any(axis=0) for each in found.values()], axis=0)
    return right, {name: each & (groups == 1) for name, each in right.items()}


def _pairs(names, found, larger_is_better):
    names, pairs = list(names), []
    for first, second in itertools.combinations(range(len(names)), 2):
        difference, *interval = found.interval(second, first)
        pairs.append(
            {
                "first": names[first],
                "second": names[second],
                "difference": difference,
                "interval": interval,
                "p": float(found.p_values[first, second]),
                "better": _better(interval, larger_is_better, names[first], names[second]),
            }
        )
    return pairs


def _better(interval, larger_is_better, first="a", second="b"):
    low, high = interval
    if low <= 0 <= high:
        return None
    return second if (low > 0) == larger_is_better else first


def _spread(key, several, name):
    means = [np.mean(scores.per_query[name]) for scores in several]
    return {key: float(np.std(means, ddof=1))} if len(means) > 1 else {}
