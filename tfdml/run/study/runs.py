"""The runs of a study over seeds and folds, each in its own directory."""

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
    """A run of a study, with its training flags and its directory."""

    arguments: list
    path: Path


def runs_of(row, seeds, folder):
    """Returns the runs of a row, one per seed. `row` lists its flags, with the flagfile first."""
    paths = {seed: Path(folder) / f"{run_name(row)}-seed{seed}" for seed in seeds}
    return [Run([*row, f"--seed={seed}", f"--run_dir={path}"], path) for seed, path in paths.items()]


def complete(runs, records=None, measure=None):
    """Trains the incomplete runs in a list of `Run` and returns the results of all.

    The file `records` stores the results of complete runs. `measure` is called with each run directory.
    """
    recorded, flags_of = read(records) if records else {}, {}
    # These checks come first, so that nothing is trained in vain if a flagfile has changed since.
    for run in runs:
        serialized = resolved(run.arguments)
        _check_alone(run.path, flags_of.setdefault(run.path, serialized), serialized)
        if run.path.name in recorded and not run.path.exists():
            restore(recorded[run.path.name], run.path, serialized)
        # An ensemble that was stopped before its members were joined has no flags.
        EnsembleDirectory(run.path).check_claim(serialized)
        check_images(run.path, serialized)
    results = []
    for number, (arguments, path) in enumerate(runs, 1):
        run = RunDirectory(path)
        result = run.result()
        # An ensemble that has joined only some of its members is not complete.
        if result is None or len(result.get("members", ())) < result.get("asked", 0):
            # The training process of a killed study may still be ending.
            run.check_free(ENDING)
            logging.getLogger(__name__).info("Run %d of %d: %s", number, len(runs), path)
            train(arguments)
        if measure:
            measure(path)
        if records:
            keep(path, records)
        results.append(run.result())
    return results


def _check_alone(path, before, now):
    """Raises a ValueError if two runs with different flags would have the same directory."""
    different = [f"{before[name]} and {now[name]}" for name in now if before[name] != now[name]]
    if different:
        raise ValueError(
            f"Two rows would both be trained in {path}, because {', '.join(PLACES)} are not part of its name. "
            f"Received: {'; '.join(different)}. Train these rows in two studies with different --runs."
        )


def resolved(arguments):
    """Returns all training flags by name, as `--name=value`. An error mentions the flagfile."""
    try:
        return resolve(arguments)
    except flags.Error as error:
        raise ValueError(f"{arguments[0].partition('=')[2]}: {flag_sentence(str(error))}") from None


def run_name(row):
    """Returns the name of a run: its flagfile and the flags that change it, except for places of files."""
    flagfile, *changes = row
    changes = [change for change in changes if change.partition("=")[0] not in PLACES]
    whole = "-".join([Path(flagfile.partition("=")[2]).stem, *changes])
    name = re.sub(r"[^\w.=,-]+", "_", whole.replace("--", ""))
    if len(name) <= LONGEST_NAME:
        return name
    # The hash distinguishes names that start with the same characters.
    return f"{name[: LONGEST_NAME - 9]}-{hashlib.sha256(whole.encode()).hexdigest()[:8]}"


def train(arguments):
    """Trains in a new process, as a user would. Raises `TrainingStopped` or `CalledProcessError`."""
    stopped = "The study stopped in this run. To resume it, repeat the command."
    status = status_of_training(arguments, subprocess.Popen.wait, stopped, stdout=subprocess.DEVNULL)
    if status:
        raise subprocess.CalledProcessError(status, command_line("python", "-m", "tfdml.train", *arguments))


def curve(run_dir, metric="recall_at_1"):
    """Returns the learning curve of a metric, from step to value in order. It is empty for an ensemble."""
    return curve_of(RunDirectory(run_dir).events(), metric)


def curve_of(events, metric="recall_at_1"):
    """Returns the learning curve of a metric in the events of a run, from step to value in order."""
    return {event["step"]: event[metric] for event in events if metric in event}


def folds_of(row):
    """Returns the flags for each fold of a row's runs, or one fold without flags if the row has no folds."""
    settings, _ = parse("\n".join(resolved(row).values()))
    if any(flag.startswith("--fold=") for flag in row):
        return [[]]
    return [[f"--fold={fold}"] for fold in range(settings.evaluation.folds)] or [[]]


def mean_of(results):
    """Returns the mean result over folds, with the numbers of all models and the seconds."""
    if len(results) == 1:
        return results[0]
    kept = ("features", "untrained", "metrics", "best", "validation", "seconds")
    names = [name for name in kept if all(name in result for result in results)]
    return {name: _mean([result[name] for result in results]) for name in names}


def _mean(values):
    """Averages numbers, or the entries of dictionaries that all folds have. Returns None if a value is missing."""
    if isinstance(values[0], dict):
        numeric = dict | float | int | None
        numbers = [name for name in values[0] if all(isinstance(value.get(name, ""), numeric) for value in values)]
        return {name: _mean([value[name] for value in values]) for name in numbers}
    return None if None in values else statistics.mean(values)
