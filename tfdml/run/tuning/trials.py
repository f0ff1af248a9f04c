"""The trials of a search: ordinary runs on the training classes, each in a process."""

import subprocess
import time

from tfdml.console.flags import written
from tfdml.console.settings import values_of
from tfdml.console.startup import is_full
from tfdml.run.directory.run_directory import ENDING, TAKEN, RunDirectory
from tfdml.run.experiment.splits import validation_seed_of
from tfdml.run.training.training_process import ERROR, status_of_training
from tfdml.run.tuning.state import Cost, RungScore

# Seconds after which the time that a search has taken is saved.
TICK = 5.0
# How the reason of a process that was killed begins: perhaps the machine was shut down, or its memory was full.
KILLED = "It ended by signal"


def train_in_process(arguments, log, tick, every=TICK):
    """Trains in a process of its own; returns why it failed, or None. SIGTERM and Ctrl-C stop it, and then this one.

    What it prints is added to the file `log`, and `tick` is called every so many seconds while it trains.
    """

    def follow(process):
        while True:
            try:
                process.wait(timeout=every)
                return
            except subprocess.TimeoutExpired:
                tick()

    with open(log, "ab") as output:
        streams = {"stdout": output, "stderr": subprocess.STDOUT}
        status = status_of_training(arguments, follow, "The search stopped with this trial.", **streams)
    if status <= 0:
        return f"{KILLED} {-status}." if status else None
    lines = log.read_text(encoding="utf-8", errors="replace").split("\n")
    errors = [line.removeprefix(ERROR) for line in lines if line.startswith(ERROR)]
    return errors[-1] if errors else f"It ended with status {status}; {log} has what it printed."


def trial_flags(settings, serialized, epoch):
    """Returns the flags that all trials have, except for their length and what each changes.

    Their dataset has the training classes alone, and as its test the classes that `--evaluate_on=validation` holds out.
    An epoch has `epoch` steps.
    """
    data, evaluation = settings.data, settings.evaluation
    seed = validation_seed_of(evaluation, settings.run.seed)
    left_out = f", ignore_images={data.ignore_images!r}" if data.ignore_images else ""
    arguments = f"dataset={data.dataset!r}, held_out={evaluation.validation_classes}, seed={seed}{left_out}"
    changes = {"dataset": f"training_classes({arguments})", "steps_per_epoch": epoch, **values_of("in_trials")}
    return {**serialized, **written(changes)}


class TrialFailed(Exception):
    """A trial cannot be trained; the text is why."""


class Trials:
    """Trains trials in a `SearchDirectory`, and measures what they take; `flags` are those of `trial_flags`."""

    def __init__(self, folder, state, flags, more=()):
        self.folder, self.state, self.flags, self.more = folder, state, flags, more
        # Set by the search, whose time goes on while a process trains.
        self.tick = None

    def __call__(self, number, steps):
        """Trains or resumes a trial to so many steps; returns its `RungScore`, or raises `TrialFailed`."""
        run = RunDirectory(self.folder.trial(number))
        result = run.result()
        cost = self._train(run, number, steps) if result is None or result["step"] < steps else None
        result = run.complete_result()
        best = result["best"]
        self.state.metric = best["selected_by"]
        interval = result.get("intervals", {}).get(self.state.metric)
        return RungScore(number, steps, best[self.state.metric], interval, cost)

    def _train(self, run, number, steps):
        # The process of a search that was killed may be about to end.
        run.check_free(ENDING)
        begun, taken = time.monotonic(), max((event["step"] for event in run.events("train")), default=0)
        flags = {**self.flags, **self.state.changes[number], "steps": f"--steps={steps}"}
        arguments = [*flags.values(), f"--run_dir={run.path}", *self.more]
        failed = train_in_process(arguments, self.folder.log(number), self.tick)
        if failed and (is_full(failed) or failed.startswith(TAKEN)):
            # That is no fault of the trial, which would never be tried again.
            raise OSError(f"The trial {number:03} stopped. {failed}")
        if failed:
            raise TrialFailed(failed)
        return _cost(run, taken, time.monotonic() - begun)


def _cost(run, taken, seconds):
    """Returns the `Cost` of a process that resumed after `taken` steps; None if it took no step."""
    epochs = [event for event in run.events("train") if event["step"] > taken]
    if not epochs:
        return None
    # In its first epoch TensorFlow makes its graph, and in its last one the model is evaluated.
    ends = [taken, *(event["step"] for event in epochs)]
    paces = [event["seconds"] / (event["step"] - before) for event, before in zip(epochs, ends, strict=False)]
    return Cost(max(0.0, seconds - (ends[-1] - taken) * min(paces)), min(paces))
