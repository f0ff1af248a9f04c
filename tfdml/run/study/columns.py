"""Columns of studies' tables: functions of a row's results and run directories that give a cell, see `cells`."""

import statistics
from dataclasses import dataclass

import numpy as np

from tfdml.run.study.cells import Number, Spread
from tfdml.run.study.measured import measured
from tfdml.run.study.runs import curve


@dataclass(frozen=True)
class MetricOf:
    """Column of a metric of the models that results have under `best`, or of the last ones, `metrics`.

    One that was not measured is an error, or, if it is not `required`, an empty cell.
    """

    which: str
    name: str = "recall_at_1"
    required: bool = True

    def __call__(self, results, run_dirs):
        if not self.required and not any(self.name in result[self.which] for result in results):
            return ""
        return spread_of([result[self.which] for result in results], self.name)


def spread_of(scores, name):
    """Returns the cell of a metric: a value for each seed; empty where a seed has none, as of pairs that are not there.

    Args:
        scores: for each seed the values of metrics by name.
        name: name of the metric.
    """
    missing = [each for each in scores if name not in each]
    if missing:
        names = ", ".join(each for each, value in missing[0].items() if isinstance(value, float))
        raise ValueError(f"Expected a metric that the runs have measured, {names}; received {name}.")
    values = [each[name] for each in scores]
    return "" if None in values else Spread(values)


def measured_learners(run_dirs):
    """Returns the measures of the learners of each run."""
    return [measured(run_dir)["learners"] for run_dir in run_dirs]


def recall_of_learners(learners):
    """Mean Recall@1 of the learners of each run alone, of what their results have under `learners`."""
    return Spread([statistics.mean(one["recall_at_1"] for one in each["alone"]) for each in learners])


def recall_of_measured(results, run_dirs):
    """Column of the Recall@1 of learners alone, as they were measured."""
    return recall_of_learners(measured_learners(run_dirs))


def recall_alone(results, run_dirs):
    """Column of the Recall@1 of learners alone, of results that have any."""
    learners = learners_of(results)
    return recall_of_learners(learners) if learners else ""


def learners_of(results):
    """Returns the entry `learners` of each result that has one."""
    return [result["learners"] for result in results if "learners" in result]


def correlation(results, run_dirs):
    """Column of how much learners correlate."""
    return Number(statistics.mean(each["correlation"] for each in measured_learners(run_dirs)), ".3f")


def gained_late(results, run_dirs):
    """Column of how much Recall@1 gained in the last quarter of the steps, near 0 where it has flattened."""
    return Spread([gain_of(curve(path)) for path in run_dirs])


def gain_of(values):
    """How much the values of a learning curve gain in its last quarter."""
    end = max(values)
    # Between two evaluations as if it rose evenly.
    return values[end] - np.interp(0.75 * end, list(values), list(values.values()))


def steps_to_best(results, run_dirs):
    """Column of the steps after which runs had their best model: mean ± standard deviation."""
    return Spread([result["best"]["step"] for result in results], scale=1, form=",.0f")


# Of a study on validation classes: the best model there beside the last one, and whether the run was finished.
BEST_AND_LAST = {"Recall@1": MetricOf("best"), "of the last model": MetricOf("metrics")}
FINISHED = {"steps to the best": steps_to_best, "gain in the last quarter": gained_late}
