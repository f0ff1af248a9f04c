"""Compares models by their values for each query, and by pair metrics."""

import dataclasses
import itertools

import numpy as np

from tfdml.evaluation.scores import Scores
from tfdml.evaluation.statistics import all_pairs, degrees_of, percentile_intervals, resampled_means
from tfdml.evaluation.verification.thresholds import resampled_pairs


def compare(first, second, metrics, clusters=None, *, samples=2000, seed=0):
    """Compares A with B, each the `Scores` of one model or of several seeds, on the same queries.

    The values of several seeds are averaged for each query. `all_pairs` computes the interval, which allows for few
    classes.

    Returns a dictionary from metric name to `{"a": mean, "b": mean, "difference": b - a, "interval": [low, high],
    "better": "a", "b" or None}`. With several seeds, it also has `a_std` and `b_std`, the standard deviations of their
    means. `better` is None if the interval contains 0.
    """
    measured = _by_queries({"a": first, "b": second}, metrics, clusters, samples, seed)
    return {name: of_metric.of_two() for name, of_metric in measured}


def compare_all(groups, metrics, clusters=None, *, samples=2000, seed=0):
    """Compares all pairs of groups on the same queries, corrected for the number of pairs.

    A group is the `Scores` of one model or of several seeds, as in `compare`. `all_pairs` computes the intervals and
    p-values, for all pairs of a metric together.

    Returns a dictionary from metric name to another dictionary. It maps the name of each group to `{"mean": mean,
    "interval": [low, high]}`, with `std` if there are several seeds, and `pairs` to a list of `{"first": name,
    "second": name, "difference": second - first, "interval": [low, high], "p": p-value, "better": name or None}`.
    """
    return {name: of_metric.of_all() for name, of_metric in _by_queries(groups, metrics, clusters, samples, seed)}


def _by_queries(groups, metrics, clusters, samples, seed):
    """Yields the name of each metric with the `_Measured` of all groups."""
    per_query = {name: Scores.mean(group).per_query for name, group in groups.items()}
    for metric in metrics:
        values = np.stack([of_group[metric.name] for of_group in per_query.values()], axis=1)
        resampled = resampled_means(values, clusters, samples=samples, seed=seed)
        sizes = np.ones(len(values)) if clusters is None else np.unique(clusters, return_counts=True)[1]
        of_runs = [[np.mean(run.per_query[metric.name]) for run in group] for group in groups.values()]
        means = values.mean(axis=0).tolist()
        measured = _Measured(list(groups), means, of_runs, resampled, degrees_of(sizes), metric.larger_is_better)
        yield metric.name, measured


def compare_pairs(groups, metrics, *, samples=2000, seed=0):
    """Compares groups of models by pair metrics, with the same resamples of classes for all groups.

    A group is a list of `RetrievalPairs`, and the values of its members are averaged. For two groups, called `a` and
    `b`, the result has the form of `compare`; for more, the form of `compare_all`.
    """
    values = {
        metric.name: [[metric.value_of_pairs(pairs) for pairs in group] for group in groups.values()]
        for metric in metrics
    }
    missing = [name for name, of_runs in values.items() if None in itertools.chain.from_iterable(of_runs)]
    if missing:
        raise ValueError(f"{missing[0]} cannot be computed because there are too few pairs. Choose other metrics.")
    drawn = [
        [
            resampled_pairs(
                pairs, {metric.name: metric.of_draws(pairs) for metric in metrics}, samples=samples, seed=seed
            )
            for pairs in group
        ]
        for group in groups.values()
    ]
    pairs = next(iter(groups.values()))[0]
    images = pairs.task.labels[np.union1d(pairs.queries, pairs.gallery)]
    found, degrees = {}, degrees_of(np.unique(images, return_counts=True)[1])
    for metric in metrics:
        resampled = np.stack([np.mean([run[metric.name] for run in group], axis=0) for group in drawn], axis=1)
        resampled = resampled[np.isfinite(resampled).all(axis=1)]
        if not len(resampled):
            raise ValueError(
                f"{metric.name} cannot be computed in any resample because there are too few classes. Choose other "
                "metrics."
            )
        of_runs = values[metric.name]
        means = [float(np.mean(group)) for group in of_runs]
        measured = _Measured(list(groups), means, of_runs, resampled, degrees, metric.larger_is_better)
        found[metric.name] = measured.of_two() if len(groups) == 2 else measured.of_all()
    return found


@dataclasses.dataclass(frozen=True)
class _Measured:
    """One metric of all groups: means, values of the runs, and means `[samples, groups]` of the resamples."""

    names: list
    means: list
    of_runs: list
    resampled: np.ndarray
    degrees: float
    larger_is_better: bool

    def of_two(self):
        """Returns the entry of this metric in the result of `compare`."""
        difference, *interval = self._pairs().interval(1, 0)
        return {
            **dict(zip("ab", self.means, strict=True)),
            "difference": difference,
            "interval": interval,
            "better": self._better(interval, "a", "b"),
            **{
                f"{name}_std": deviation
                for name, deviation in zip("ab", self._deviations(), strict=True)
                if deviation is not None
            },
        }

    def of_all(self):
        """Returns the entry of this metric in the result of `compare_all`."""
        alone, pairs, found = {}, [], self._pairs()
        of_groups = zip(self.names, self.means, percentile_intervals(self.resampled), self._deviations(), strict=True)
        for name, mean, interval, deviation in of_groups:
            alone[name] = {"mean": mean, "interval": interval, **({} if deviation is None else {"std": deviation})}
        for first, second in itertools.combinations(range(len(self.names)), 2):
            difference, *interval = found.interval(second, first)
            names = {"first": self.names[first], "second": self.names[second]}
            about = {"difference": difference, "interval": interval, "p": float(found.p_values[first, second])}
            pairs.append({**names, **about, "better": self._better(interval, *names.values())})
        return {**alone, "pairs": pairs}

    def _pairs(self):
        return all_pairs(self.means, self.resampled, self.degrees)

    def _deviations(self):
        """Returns the standard deviation over the runs of each group, or None for a single run."""
        return [float(np.std(runs, ddof=1)) if len(runs) > 1 else None for runs in self.of_runs]

    def _better(self, interval, first, second):
        low, high = interval
        if low <= 0 <= high:
            return None
        return second if (low > 0) == self.larger_is_better else first


def right_by_all(scores):
    """Returns the queries that all runs of a group get right, and which of them no run of another group gets right.

    `scores` maps names of groups to lists of `Scores` with `recall_at_1`. Both results map these names to booleans
    `[Q]`.
    """
    found = {name: np.array([run.per_query["recall_at_1"] > 0.5 for run in group]) for name, group in scores.items()}
    right = {name: each.all(axis=0) for name, each in found.items()}
    groups = np.sum([each.any(axis=0) for each in found.values()], axis=0)
    return right, {name: each & (groups == 1) for name, each in right.items()}
