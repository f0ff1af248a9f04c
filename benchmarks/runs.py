"""Runs over seeds, each in a directory of its own, and their results in a table.

A run that is complete is not run again, and one that was stopped goes on.
"""

import argparse
import json
import re
import statistics
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from tfdml.flags import resolve
from tfdml.run.run_directory import RunDirectory


class Run(NamedTuple):
    """A run of a study: the flags of its training, and its directory."""

    arguments: list
    path: Path


def runs_of(flagfile, changes, seeds, folder):
    """The runs of a flagfile, one for each seed.

    Args:
        flagfile: its path.
        changes: flags for all of them, such as `--epochs=5`.
        seeds: list of what `--seed` takes.
        folder: folder of the run directories.
    """
    paths = [Path(folder) / f"{run_name(flagfile, changes)}-seed{seed}" for seed in seeds]
    given = [f"--flagfile={flagfile}", *changes]
    return [Run([*given, f"--seed={seed}", f"--run_dir={path}"], path) for seed, path in zip(seeds, paths, strict=True)]


def complete(runs):
    """Trains what is missing of runs, and gives their results."""
    # First of all, so that nothing is trained in vain: refuses results of a flagfile that has changed since.
    for run in runs:
        RunDirectory(run.path).check_claim(resolve(run.arguments))
    results = []
    for number, (arguments, path) in enumerate(runs, 1):
        run = RunDirectory(path)
        if run.result() is None:
            print(f"Run {number} of {len(runs)}: {path}", file=sys.stderr, flush=True)
            train(arguments)
        results.append(run.result())
    return results


def run_name(flagfile, changes):
    """What a run is called: its flagfile and what was changed in it."""
    name = "-".join([Path(flagfile).stem, *changes])
    return re.sub(r"[^\w.=,-]+", "_", name.replace("--", ""))


def train(arguments):
    """Trains in a process of its own, as a user would; stops the study if the run fails."""
    command = [sys.executable, "-m", "tfdml.train", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        status = process.wait()
    except KeyboardInterrupt:
        # Ctrl-C reached the run as well, which saves its step and says so.
        status = process.wait()
        if not status:
            raise
        sys.exit(status)
    if status:
        print(f"{' '.join(command)} ended with status {status}.", file=sys.stderr)
        sys.exit(status)


def compare(about, flagfile, changes, folder, heads, row):
    """A command line that trains a flagfile with changes and several seeds, and prints a row of a table for each.

    Flags that it does not know are those of training, for all rows.

    Args:
        about: what it says of itself.
        flagfile: path.
        changes: name of the row to its flags, a list such as `["--method=single"]`.
        folder: folder of the run directories unless `--runs` says another.
        heads: heads of the table, the first for the names of the rows.
        row: function of a row's results and run directories that gives its cells.
    """
    parser = argparse.ArgumentParser(
        description=about, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--seeds", default="0,1,2", help="joined by commas")
    parser.add_argument("--runs", default=folder, help="folder of the run directories")
    parser.add_argument("--row", action="append", choices=list(changes), help="as often as wanted; all if not at all")
    arguments, flags = parser.parse_known_args()
    seeds, names = arguments.seeds.split(","), arguments.row or list(changes)
    runs = [runs_of(flagfile, [*changes[name], *flags], seeds, arguments.runs) for name in names]
    results = iter(complete([run for several in runs for run in several]))
    rows = []
    for name, several in zip(names, runs, strict=True):
        rows.append([name, *row([next(results) for _ in several], [run.path for run in several])])
    print(markdown(heads, rows))


def recall_of_learners(learners):
    """Mean Recall@1 of the learners of each run alone, of what their results have under `learners`."""
    return [statistics.mean(one["recall_at_1"] for one in each["alone"]) for each in learners]


def gained_late(run_dirs, metric="recall_at_1"):
    """Returns how much each run gained in its last quarter, near 0 where the metric has flattened."""
    gains = []
    for path in run_dirs:
        events = [json.loads(line) for line in RunDirectory(path).metrics.read_text().splitlines()]
        values = {event["step"]: event[metric] for event in events if metric in event}
        end = max(values)
        gains.append(values[end] - values[min(values, key=lambda step: abs(step - 0.75 * end))])
    return gains


def spread(values):
    """Mean ± standard deviation of fractions, in percent."""
    deviation = f" ± {100 * statistics.stdev(values):.1f}" if len(values) > 1 else ""
    return f"{100 * statistics.mean(values):.1f}{deviation}"


def markdown(heads, rows):
    """A Markdown table of text."""
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (heads, ["---"] * len(heads), *rows))
