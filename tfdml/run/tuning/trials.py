"""The trials of a search: runs on the training classes, each in its own process."""

import subprocess
import time

from tfdml.console.flags import written
from tfdml.console.settings import values_of
from tfdml.console.startup import is_full
from tfdml.run.directory.run_directory import ENDING, TAKEN, RunDirectory
from tfdml.run.experiment.splits import validation_seed_of
from tfdml.run.training.training_process import ERROR, status_of_training
from tfdml.run.tuning.state import Cost, RungScore

# Seconds between saves of the time that a search has taken.
TICK = 5.0
# Start of the reason if a process was killed, for example because memory was full.
KILLED = "It ended by signal"


def train_in_process(arguments, log, tick, every=TICK):
    """Trains in a separate process; returns why it failed, or None. SIGTERM and Ctrl-C stop it, and then this process.

    Its output is appended to the file `log`, and `tick` is called regularly while it trains.
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
    return errors[-1] if errors else f"It failed with exit status {status}. For its output, see {log}."


def trial_flags(settings, serialized, epoch, changes=()):
    """Returns the flags of a trial that differs from the first one by `changes`, `{name: "--name=value"}`.

    The dataset of a trial contains only training classes; those that `--evaluate_on=validation` holds out are its test
    set. An epoch has `epoch` steps.
    """
    data, evaluation, changes = settings.data, settings.evaluation, dict(changes)
    dataset = changes.pop("dataset", serialized["dataset"]).partition("=")[2]
    seed = validation_seed_of(evaluation, settings.run.seed)
    left_out = f", ignore_images={data.ignore_images!r}" if data.ignore_images else ""
    arguments = f"dataset={dataset!r}, held_out={evaluation.validation_classes}, seed={seed}{left_out}"
    own = {"dataset": f"training_classes({arguments})", "steps_per_epoch": epoch, **values_of("in_trials")}
    return {**serialized, **written(own), **changes}


class TrialFailed(Exception):
    """Raised if a trial cannot be trained; the text is the reason."""


class Trials:
    """Trains trials in a `SearchDirectory`, and measures their `Cost`. `flags` returns the flags for some changes."""

    def __init__(self, folder, state, flags, more=()):
        self.folder, self.state, self.flags, self.more = folder, state, flags, more
        # Set by the search, which counts the time while a process trains.
        self.tick = None

    def __call__(self, number, steps):
        """Trains or resumes a trial up to this number of steps; returns its `RungScore` or raises `TrialFailed`."""
        run = RunDirectory(self.folder.trial(number))
        result = run.result()
        cost = self._train(run, number, steps) if result is None or result["step"] < steps else None
        result = run.complete_result()
        best = result["best"]
        self.state.metric = best["selected_by"]
        interval = result.get("intervals", {}).get(self.state.metric)
        return RungScore(number, steps, best[self.state.metric], interval, cost)

    def _train(self, run, number, steps):
        # If an earlier search was killed, its process may still be ending.
        run.check_free(ENDING)
        begun, taken = time.monotonic(), max((event["step"] for event in run.events("train")), default=0)
        flags = {**self.flags(self.state.changes[number]), "steps": f"--steps={steps}"}
        arguments = [*flags.values(), f"--run_dir={run.path}", *self.more]
        failed = train_in_process(arguments, self.folder.log(number), self.tick)
        if failed and (is_full(failed) or failed.startswith(TAKEN)):
            # The trial itself is not the cause, and a failed trial would never be trained again.
            raise OSError(f"The trial {number:03} stopped. {failed}")
        if failed:
            raise TrialFailed(failed)
        return _cost(run, taken, time.monotonic() - begun)


def _cost(run, taken, seconds):
    """Returns the `Cost` of a process that resumed after `taken` steps, or None if it took no step."""
    epochs = [event for event in run.events("train") if event["step"] > taken]
    if not epochs:
        return None
    # The fastest epoch is typical: the first includes tracing the graph, and the last includes evaluation.
    ends = [taken, *(event["step"] for event in epochs)]
    paces = [event["seconds"] / (event["step"] - before) for event, before in zip(epochs, ends, strict=False)]
    return Cost(max(0.0, seconds - (ends[-1] - taken) * min(paces)), min(paces))
