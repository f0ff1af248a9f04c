"""The folds of a flagfile, and the mean of their results."""

import statistics

from tfdml.console.flags import parse
from tfdml.run.study.runs import resolved


def folds_of(row):
    """The flags that make each fold of a row's runs; one fold without flags where there are no folds."""
    settings, _ = parse("\n".join(resolved(row).values()))
    if any(flag.startswith("--fold=") for flag in row):
        return [[]]
    return [[f"--fold={fold}"] for fold in range(settings.evaluation.folds)] or [[]]


def mean_of(results):
    """The mean of the results of several folds, of all that is a number for each model, and of the seconds."""
    if len(results) == 1:
        return results[0]
    kept = ("features", "untrained", "metrics", "best", "validation", "seconds")
    names = [name for name in kept if all(name in result for result in results)]
    return {name: _mean([result[name] for result in results]) for name in names}


def _mean(values):
    """The mean of numbers, or, by name, of dictionaries of numbers that all folds have; None if one has no value."""
    if isinstance(values[0], dict):
        known = dict | float | int | None
        numbers = [name for name in values[0] if all(isinstance(value.get(name, ""), known) for value in values)]
        return {name: _mean([value[name] for value in values]) for name in numbers}
    return None if None in values else statistics.mean(values)
