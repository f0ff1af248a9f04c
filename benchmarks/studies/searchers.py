"""Compares searches for hyperparameters: `python -m benchmarks.studies.searchers docs/records/emoji.jsonl`.

It trains nothing. It replays each search many times on the recorded learning curves of all settings with seed 0 and the
same number of steps. All searches have the same budget of steps, in which the start of a process counts as a few steps.
A search sees the validation classes, and the table has the result of its choice on the test classes. The command prints
a Markdown table. It needs the extra `bench`, for Optuna.
"""

import argparse
import shlex
import statistics

from benchmarks.markdown import markdown
from benchmarks.studies.replays import SEARCHES, Curve
from tfdml.run.study.records import read

METRIC = "recall_at_1"
# The default configuration of docs/settings.md.
RECIPE = "--loss='n_pair(scale=20.0)' --optimizer='adam(learning_rate=0.0003)'"


def curves_of(file, steps, recipe=RECIPE):
    """Returns the recorded `Curve` of each setting, starting with the default configuration.

    Args:
        file: Path of the records.
        steps: Length of the runs that count.
        recipe: Flags, as in a shell, that only the run of the default configuration has.
    """
    found = [curve for record in read(file).values() if (curve := _curve(record, steps))]
    first = [curve for curve in found if set(shlex.split(recipe)) <= set(curve.flags.values())]
    if len(first) != 1:
        raise ValueError(f"{file} must have one run of {steps} steps with {recipe}. Found: {len(first)} runs.")
    return first + [curve for curve in found if curve is not first[0]]


def _curve(record, steps):
    flags = {line.removeprefix("--").partition("=")[0]: line for line in record["flags"]}
    values = {event["step"]: event[METRIC] for event in record["curve"] if event.get("split") == "validation"}
    is_one = flags["steps"] == f"--steps={steps}" and flags["seed"] == "--seed=0" and max(values, default=0) == steps
    return Curve(flags, values, record["result"]["best"][METRIC]) if is_one else None


def table(curves, budgets, start, seeds):
    """Returns a Markdown table of the mean result on the test classes, in percent, for each search and budget.

    Args:
        curves: List of curves from `curves_of`.
        budgets: List of budgets, each as a number of complete runs.
        start: Number of steps that take as long as the start of a process.
        seeds: Number of replays of each search.
    """
    steps = [budget * (curves[0].length + start) for budget in budgets]
    reached = {
        name: [statistics.mean(search(curves, each, start, seed).test for seed in range(seeds)) for each in steps]
        for name, search in SEARCHES.items()
    }
    reached["best of all settings"] = [max(curve.test for curve in curves)] * len(budgets)
    rows = [[name, *(f"{100 * value:.1f}" for value in values)] for name, values in reached.items()]
    return markdown([f"Search among {len(curves)} settings", *(f"Time of {budget} runs" for budget in budgets)], rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition(":")[0])
    parser.add_argument("records", nargs="+", help="Files of records of studies.")
    parser.add_argument("--steps", type=int, default=400, help="Length of the runs that count.")
    parser.add_argument("--recipe", default=RECIPE, help="Flags that only the run of the default configuration has.")
    parser.add_argument(
        "--budgets", type=int, nargs="+", default=[2, 3, 5, 10, 20], help="Budgets, as numbers of complete runs."
    )
    parser.add_argument(
        "--start", type=int, default=20, help="Number of steps that take as long as the start of a process."
    )
    parser.add_argument("--seeds", type=int, default=200, help="Replays of each search.")
    given = parser.parse_args()
    for file in given.records:
        curves = curves_of(file, given.steps, given.recipe)
        print(f"{file}:\n\n{table(curves, given.budgets, given.start, given.seeds)}\n", flush=True)


if __name__ == "__main__":
    main()
