"""Runs `python -m tfdml.train` up to its first step and writes the time at which each stage ended."""

import json
import os
import time

from benchmarks.speed import training_command

MARKS = []


def main(path, arguments):
    """Trains one step, writes `[stage, seconds since 1970, CPU seconds]` of each stage to a JSON file, and ends.

    Args:
        path: path of the JSON file.
        arguments: the command's arguments.
    """

    def imported():
        mark_run(path)
        mark("imports")

    training_command.train(arguments, imported, before=lambda: mark("Python and flags"))


def mark_run(path):
    """Imports the modules of a run and instruments its stages."""
    import tfdml
    from tfdml.run.training import run_training as training
    from tfdml.run.training.run_callbacks import Progress

    mark_after(training, "make_sampler", "dataset and sampler")
    mark_after(training, "build_model", "model and optimizer")
    mark_after(training, "Batches", "input pipelines")
    mark_after(tfdml.callbacks.RetrievalEvaluation, "on_train_begin", "untrained model's evaluation")
    mark_after(Progress, "on_train_batch_end", "first step", lambda: end(path))


def mark(stage):
    MARKS.append([stage, time.time(), sum(os.times()[:2])])


def mark_after(owner, name, stage, then=lambda: None):
    """Replaces a function with one that marks the end of a stage after each call and then calls `then`."""
    original = getattr(owner, name)

    def marking(*args, **kwargs):
        result = original(*args, **kwargs)
        mark(stage)
        then()
        return result

    setattr(owner, name, marking)


def end(path):
    with open(path, "w", encoding="utf-8") as file:
        json.dump(MARKS, file)
    # End the process at once, because a run that is stopped would save its step.
    os._exit(0)
