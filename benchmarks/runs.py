"""Runs over seeds, each in a directory of its own, and their results in a table.

A run that is complete is not run again, and one that was stopped goes on.
"""

import re
import statistics
import subprocess
import sys
from pathlib import Path

from tfdml.flags import resolve
from tfdml.run_directory import RunDirectory


def results_of(flagfile, changes, seeds, folder):
    """The results of a flagfile's runs, one for each seed.

    Args:
        flagfile: its path.
        changes: flags for all of them, such as `--epochs=5`.
        seeds: list of what `--seed` takes.
        folder: folder of the run directories.
    """
    results = []
    for seed, run_dir in zip(seeds, run_dirs_of(flagfile, changes, seeds, folder), strict=True):
        arguments = [f"--flagfile={flagfile}", *changes, f"--seed={seed}", f"--run_dir={run_dir}"]
        run = RunDirectory(run_dir)
        # Refuses the result of a flagfile that has changed since.
        run.check_claim(resolve(arguments))
        if run.result() is None:
            print(f"{run_dir} ...", file=sys.stderr, flush=True)
            train(arguments)
        results.append(run.result())
    return results


def run_dirs_of(flagfile, changes, seeds, folder):
    """The directories of the same runs."""
    return [Path(folder) / f"{run_name(flagfile, changes)}-seed{seed}" for seed in seeds]


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
        # Ctrl-C reached the run as well, which saves its step.
        status = process.wait()
    if status:
        print(f"{' '.join(command)} ended with status {status}.", file=sys.stderr)
        sys.exit(status)


def spread(values):
    """Mean ± standard deviation of fractions, in percent."""
    deviation = f" ± {100 * statistics.stdev(values):.1f}" if len(values) > 1 else ""
    return f"{100 * statistics.mean(values):.1f}{deviation}"


def markdown(heads, rows):
    """A Markdown table of text."""
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (heads, ["---"] * len(heads), *rows))
