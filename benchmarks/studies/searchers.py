"""Compares ways to search for settings: `python -m benchmarks.studies.searchers docs/records/emoji.jsonl`.

Nothing is trained: every search is replayed many times, with the same budget of steps, on the learning curves of all
settings that studies have recorded with seed 0 and so many steps. The start of a process counts as some steps. A search
sees validation classes; what it has chosen is measured on the test. Prints a Markdown table. Needs the extra `bench`,
for Optuna.
"""

import argparse
import shlex
import statistics

from benchmarks.markdown import markdown
from benchmarks.studies.replays import SEARCHES, Curve
from tfdml.run.study.records import read

METRIC = "recall_at_1"
# What docs/choosing.md says to begin with.
RECIPE = "--loss='n_pair(scale=20.0)' --optimizer='adam(learning_rate=0.0003)'"


def curves_of(file, steps, recipe=RECIPE):
    """Returns the recorded `Curve` of each setting, that of the recipe first.

    Args:
        file: path of the records.
        steps: length of the runs that count.
        recipe: flags, as a shell takes them, that the run of the recipe has, and no other one.
    """
    found = [curve for record in read(file).values() if (curve := _curve(record, steps))]
    first = [curve for curve in found if set(shlex.split(recipe)) <= set(curve.flags.values())]
    if len(first) != 1:
        raise ValueError(f"Expected one run of {steps} steps with {recipe} in {file}, found {len(first)}.")
    return first + [curve for curve in found if curve is not first[0]]


def _curve(record, steps):
    flags = {line.removeprefix("--").partition("=")[0]: line for line in record["flags"]}
    values = {event["step"]: event[METRIC] for event in record["curve"] if event.get("split") == "validation"}
    is_one = flags["steps"] == f"--steps={steps}" and flags["seed"] == "--seed=0" and max(values, default=0) == steps
    return Curve(flags, values, record["result"]["best"][METRIC]) if is_one else None


def table(curves, budgets, start, seeds):
    """Returns a Markdown table: for each search and budget what it has chosen reaches on the test, in percent.

    Args:
        curves: what `curves_of` returns.
        budgets: list of budgets, each in runs to the end.
        start: steps that the start of a process is worth.
        seeds: number of replays of each search.
    """
    steps = [budget * (curves[0].length + start) for budget in budgets]
    reached = {
        name: [statistics.mean(search(curves, each, start, seed).test for seed in range(seeds)) for each in steps]
        for name, search in SEARCHES.items()
    }
    reached["the best of all"] = [max(curve.test for curve in curves)] * len(budgets)
    rows = [[name, *(f"{100 * value:.1f}" for value in values)] for name, values in reached.items()]
    return markdown([f"of {len(curves)} settings", *(f"time of {budget} runs" for budget in budgets)], rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition(":")[0])
    parser.add_argument("records", nargs="+", help="files of --records of studies")
    parser.add_argument("--steps", type=int, default=400, help="length of the runs that count")
    parser.add_argument("--recipe", default=RECIPE, help="flags that tell the recipe's run")
    parser.add_argument("--budgets", type=int, nargs="+", default=[2, 3, 5, 10, 20], help="in runs to the end")
    parser.add_argument("--start", type=int, default=20, help="steps that the start of a process is worth")
    parser.add_argument("--seeds", type=int, default=200, help="replays of each search")
    given = parser.parse_args()
    for file in given.records:
        curves = curves_of(file, given.steps, given.recipe)
        print(f"{file}:\n\n{table(curves, given.budgets, given.start, given.seeds)}\n", flush=True)


if __name__ == "__main__":
    main()
