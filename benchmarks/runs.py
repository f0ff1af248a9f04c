"""Runs over seeds, each in a directory of its own, and their results in a table.

A run that is complete is not run again, and one that was stopped goes on.
"""

import argparse
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


def compare(about, flagfile, methods, folder, heads, row):
    """A command line that trains a flagfile with several methods and seeds, and prints a row of a table for each.

    Flags that it does not know are those of training, for all rows.

    Args:
        about: what it says of itself.
        flagfile: path.
        methods: name of the row to what `--method` takes.
        folder: folder of the run directories unless `--runs` says another.
        heads: heads of the table, the first for the names of the rows.
        row: function of a method's results and run directories that gives its cells.
    """
    parser = argparse.ArgumentParser(
        description=about, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--seeds", default="0,1,2", help="joined by commas")
    parser.add_argument("--runs", default=folder, help="folder of the run directories")
    parser.add_argument("--row", action="append", choices=list(methods), help="as often as wanted; all if not at all")
    arguments, flags = parser.parse_known_args()
    rows = []
    for name in arguments.row or methods:
        runs = flagfile, [f"--method={methods[name]}", *flags], arguments.seeds.split(","), arguments.runs
        rows.append([name, *row(results_of(*runs), run_dirs_of(*runs))])
    print(markdown(heads, rows))


def recall_of_learners(learners):
    """Mean Recall@1 of the learners of each run alone, of what their results have under `learners`."""
    return [statistics.mean(one["recall_at_1"] for one in each["alone"]) for each in learners]


def spread(values):
    """Mean ± standard deviation of fractions, in percent."""
    deviation = f" ± {100 * statistics.stdev(values):.1f}" if len(values) > 1 else ""
    return f"{100 * statistics.mean(values):.1f}{deviation}"


def markdown(heads, rows):
    """A Markdown table of text."""
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (heads, ["---"] * len(heads), *rows))
