"""Runs over seeds, each in a directory of its own, and their results in a table.

A run that is complete is not run again, and one that was stopped goes on.
"""

import hashlib
import re
import statistics
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.records import PLACES, keep, read, restore
from tfdml.console.flags import resolve
from tfdml.run.directory.run_directory import RunDirectory

# Longer names of runs are cut, because folders have names of at most 255 bytes.
LONGEST_NAME = 200


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


def complete(runs, records=None, measure=None):
    """Trains what is missing of runs, and gives their results.

    Args:
        runs: list of `Run`.
        records: file that keeps what complete runs came to, see `benchmarks.records`; None for none.
        measure: function of a run directory that measures it once more, see `benchmarks.measured`; None for none.
    """
    recorded = read(records) if records else {}
    # First of all, so that nothing is trained in vain: refuses results of a flagfile that has changed since.
    for run in runs:
        flags = resolve(run.arguments)
        if run.path.name in recorded and not run.path.exists():
            restore(recorded[run.path.name], run.path, flags)
        RunDirectory(run.path).check_claim(flags)
    results = []
    for number, (arguments, path) in enumerate(runs, 1):
        run = RunDirectory(path)
        if run.result() is None:
            print(f"Run {number} of {len(runs)}: {path}", file=sys.stderr, flush=True)
            train(arguments)
        if measure:
            measure(path)
        if records:
            keep(path, records)
        results.append(run.result())
    return results


def run_name(flagfile, changes):
    """Returns the name of a run: its flagfile and what was changed in it, but for where files are."""
    changes = [change for change in changes if change.partition("=")[0] not in PLACES]
    whole = "-".join([Path(flagfile).stem, *changes])
    name = re.sub(r"[^\w.=,-]+", "_", whole.replace("--", ""))
    if len(name) <= LONGEST_NAME:
        return name
    # Names that begin alike stay different.
    return f"{name[: LONGEST_NAME - 9]}-{hashlib.sha256(whole.encode()).hexdigest()[:8]}"


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


def metric_of(which, results, name="recall_at_1"):
    """Mean ± standard deviation of a metric of the models that results have under `best`, or last ones, `metrics`."""
    return spread([result[which][name] for result in results])


def recall_of_learners(learners):
    """Mean Recall@1 of the learners of each run alone, of what their results have under `learners`."""
    return [statistics.mean(one["recall_at_1"] for one in each["alone"]) for each in learners]


def curve(run_dir, metric="recall_at_1"):
    """Returns the values of a metric while a run trained: step to value, in order; of an ensemble none."""
    return {event["step"]: event[metric] for event in RunDirectory(run_dir).events() if metric in event}


def gained_late(run_dirs):
    """Returns how much Recall@1 of each run gained in its last quarter, near 0 where it has flattened."""
    gains = []
    for path in run_dirs:
        values = curve(path)
        end = max(values)
        # Between two evaluations as if it rose evenly.
        gains.append(values[end] - np.interp(0.75 * end, list(values), list(values.values())))
    return gains


def steps_to_best(results):
    """Mean ± standard deviation of the steps after which runs had their best model."""
    steps = [result["best"]["step"] for result in results]
    deviation = f" ± {statistics.stdev(steps):,.0f}" if len(steps) > 1 else ""
    return f"{statistics.mean(steps):,.0f}{deviation}"


def spread(values):
    """Mean ± standard deviation of fractions, in percent."""
    deviation = f" ± {100 * statistics.stdev(values):.1f}" if len(values) > 1 else ""
    return f"{100 * statistics.mean(values):.1f}{deviation}"


def markdown(heads, rows):
    """A Markdown table of text."""
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (heads, ["---"] * len(heads), *rows))
