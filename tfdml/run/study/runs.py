"""The runs of a study over seeds and folds, each in a directory of its own."""

import hashlib
import logging
import re
import statistics
import subprocess
from pathlib import Path
from typing import NamedTuple

from absl import flags

from tfdml.console.command import flag_sentence
from tfdml.console.flags import command_line, parse, resolve
from tfdml.run.directory.run_directory import ENDING, RunDirectory
from tfdml.run.directory.run_record import EnsembleDirectory
from tfdml.run.study.records import PLACES, check_images, keep, read, restore
from tfdml.run.training.training_process import status_of_training

# Longer names of runs are cut, because folders have names of at most 255 bytes.
LONGEST_NAME = 200


class Run(NamedTuple):
    """A run of a study: the flags of its training, and its directory."""

    arguments: list
    path: Path


def runs_of(row, seeds, folder):
    """Returns the runs of a row, one for each seed; `row` lists its flags, its flagfile first."""
    paths = {seed: Path(folder) / f"{run_name(row)}-seed{seed}" for seed in seeds}
    return [Run([*row, f"--seed={seed}", f"--run_dir={path}"], path) for seed, path in paths.items()]


def complete(runs, records=None, measure=None):
    """Trains what is missing of a list of `Run`, and returns their results.

    The file `records` keeps what complete runs reached; `measure` is called with each run directory.
    """
    recorded = read(records) if records else {}
    # First of all, so that nothing is trained in vain: refuses results of a flagfile that has changed since.
    for run in runs:
        serialized = resolved(run.arguments)
        if run.path.name in recorded and not run.path.exists():
            restore(recorded[run.path.name], run.path, serialized)
        # One that was stopped before its members were joined has no flags.
        EnsembleDirectory(run.path).check_claim(serialized)
        check_images(run.path, serialized)
    results = []
    for number, (arguments, path) in enumerate(runs, 1):
        run = RunDirectory(path)
        result = run.result()
        # An ensemble that has joined only some of its members is not complete.
        if result is None or len(result.get("members", ())) < result.get("asked", 0):
            # The process of a study that was killed may be about to end.
            run.check_free(ENDING)
            logging.getLogger(__name__).info("Run %d of %d: %s", number, len(runs), path)
            train(arguments)
        if measure:
            measure(path)
        if records:
            keep(path, records)
        results.append(run.result())
    return results


def resolved(arguments):
    """Returns every flag of training by its name, `--name=value`; an error names the flagfile."""
    try:
        return resolve(arguments)
    except flags.Error as error:
        raise ValueError(f"{arguments[0].partition('=')[2]}: {flag_sentence(str(error))}") from None


def run_name(row):
    """Returns the name of a run: its flagfile and what was changed in it, except for where files are."""
    flagfile, *changes = row
    changes = [change for change in changes if change.partition("=")[0] not in PLACES]
    whole = "-".join([Path(flagfile.partition("=")[2]).stem, *changes])
    name = re.sub(r"[^\w.=,-]+", "_", whole.replace("--", ""))
    if len(name) <= LONGEST_NAME:
        return name
    # Names that begin alike stay different.
    return f"{name[: LONGEST_NAME - 9]}-{hashlib.sha256(whole.encode()).hexdigest()[:8]}"


def train(arguments):
    """Trains in a process of its own, as a user would; raises `TrainingStopped` or `CalledProcessError`."""
    stopped = "The study stopped with this run. To resume, repeat the same command."
    status = status_of_training(arguments, subprocess.Popen.wait, stopped, stdout=subprocess.DEVNULL)
    if status:
        raise subprocess.CalledProcessError(status, command_line("python", "-m", "tfdml.train", *arguments))


def curve(run_dir, metric="recall_at_1"):
    """Returns the values of a metric while a run trained, step to value, in order; empty for an ensemble."""
    return {event["step"]: event[metric] for event in RunDirectory(run_dir).events() if metric in event}


def folds_of(row):
    """Returns the flags that make each fold of a row's runs; one fold without flags if there are no folds."""
    settings, _ = parse("\n".join(resolved(row).values()))
    if any(flag.startswith("--fold=") for flag in row):
        return [[]]
    return [[f"--fold={fold}"] for fold in range(settings.evaluation.folds)] or [[]]


def mean_of(results):
    """Returns the mean of the results of several folds: all numbers of each model, and the seconds."""
    if len(results) == 1:
        return results[0]
    kept = ("features", "untrained", "metrics", "best", "validation", "seconds")
    names = [name for name in kept if all(name in result for result in results)]
    return {name: _mean([result[name] for result in results]) for name in names}


def _mean(values):
    """Averages numbers, or, by name, dictionaries of numbers that all folds have; None if one has no value."""
    if isinstance(values[0], dict):
        numeric = dict | float | int | None
        numbers = [name for name in values[0] if all(isinstance(value.get(name, ""), numeric) for value in values)]
        return {name: _mean([value[name] for value in values]) for name in numbers}
    return None if None in values else statistics.mean(values)
