"""Compares ways to search for settings: `python -m benchmarks.studies.searchers --records=tuning.jsonl`.

Nothing is trained: every search is replayed on the learning curves that `python -m benchmarks.study tuning --seeds=0
--records=tuning.jsonl` has recorded, many times, with the same budget of steps, in which a process that is started
counts, too. A search sees validation classes; what it has chosen is measured on the test. Needs the extra `bench`, for
Optuna.
"""

import argparse
import statistics

from benchmarks.markdown import markdown
from benchmarks.studies.records import read
from benchmarks.studies.replays import SEARCHES, Curve

METRIC = "recall_at_1"
# Steps that the start of a process is worth: on a GPU more.
START = 50


def curves_of(file):
    """Returns the recorded `Curve` of each setting, by its flags of the choice."""
    found = {}
    for record in read(file).values():
        flags = {line.removeprefix("--").partition("=")[0]: line for line in record["flags"]}
        values = {event["step"]: event[METRIC] for event in record["curve"] if event.get("split") == "validation"}
        curve = Curve(flags, values, record["result"]["best"][METRIC])
        found[curve.key] = curve
    return found


def table(curves, budgets, start, seeds):
    """Returns a Markdown table: for each search and budget what it has chosen reaches on the test, in percent.

    Args:
        curves: what `curves_of` returns.
        budgets: list of budgets, each in lengths of the longest trial.
        start: steps that the start of a process is worth.
        seeds: number of replays of each search.
    """
    longest = max(max(curve.values) for curve in curves.values())
    best = max(curve.test for curve in curves.values())
    rows = []
    for name, search in SEARCHES.items():
        cells = [name]
        for budget in budgets:
            reached = [search(curves, budget * longest, start, seed).test for seed in range(seeds)]
            cells.append(f"{100 * statistics.mean(reached):.1f} ± {100 * statistics.pstdev(reached):.1f}")
        rows.append(cells)
    rows.append(["the best of all", *[f"{100 * best:.1f}"] * len(budgets)])
    return markdown(["search", *(f"{budget:g} × {longest:,} steps" for budget in budgets)], rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition(":")[0])
    parser.add_argument("--records", required=True, help="file of --records of the study tuning")
    parser.add_argument("--budgets", type=float, nargs="+", default=[3, 5, 10, 20], help="in lengths of a trial")
    parser.add_argument("--start", type=int, default=START, help="steps that the start of a process is worth")
    parser.add_argument("--seeds", type=int, default=100, help="replays of each search")
    given = parser.parse_args()
    curves = curves_of(given.records)
    if not curves:
        parser.error(f"--records={given.records} has no run of the study tuning.")
    print(table(curves, given.budgets, given.start, given.seeds))


if __name__ == "__main__":
    main()
