"""Trains a run, from its flags to its result."""

import functools

import keras
import tensorflow as tf
from absl import logging

from tfdml.console.progress_bar import verbosity
from tfdml.console.progress_lines import EpochProgress, ProgressLines
from tfdml.console.training_stopped import TrainingStopped
from tfdml.run.directory.environment import environment
from tfdml.run.experiment.experiment import Experiment
from tfdml.run.experiment.image_data import Batches
from tfdml.run.experiment.length import late_rise
from tfdml.run.experiment.splits import check_images, check_queries, of_one_class, to_record
from tfdml.run.experiment.tensorflow_setup import set_up
from tfdml.run.loggers.choice import check_client, log_result
from tfdml.run.training.baselines import check_baselines
from tfdml.run.training.blend import put_back
from tfdml.run.training.initial_model import check_initial_model, initial_model_record
from tfdml.run.training.longer_run import LENGTH, changes_of_schedules, going_on
from tfdml.run.training.model import build_model
from tfdml.run.training.progress import Progress
from tfdml.run.training.result import print_result, result_of
from tfdml.run.training.run_callbacks import RunCallbacks
from tfdml.run.training.run_sampler import make_sampler
from tfdml.run.training.stop_request import StopRequest
from tfdml.run.training.unused_flags import unused_flags

# What TensorFlow raises in a collective operation when a process that takes part is gone.
LOST_WORKER = (
    tf.errors.UnavailableError,
    tf.errors.AbortedError,
    tf.errors.DeadlineExceededError,
)


def train(settings, run, serialized):
    """Trains what the settings say in a run directory, or goes on with it, and prints and returns the result.

    A run that is complete goes on where the settings make it longer. Of several workers only the first has the result.

    Args:
        settings: `Settings`.
        run: `RunDirectory`.
        serialized: `{name: "--name=value"}`, to know the run again.
    """
    settings, serialized, longer = going_on(run, settings, serialized)
    run.check_claim(serialized, may_change=LENGTH if longer else ())
    result = run.result()
    if result is not None and not longer:
        print(f"The run in {run.path} is complete; give another --run_dir to train again, or larger --steps to go on.")
        print_result(result, run)
        return result
    asked, devices = settings.length, settings.run.devices
    if asked.steps and asked.epochs:
        print(f"--steps={asked.steps} is the length of the run; --epochs={asked.epochs} needs --steps=0.")
    for sentence in unused_flags(settings):
        logging.warning(sentence)
    # A run that has begun goes on with the classes that it had.
    recorded = run.recorded_dataset() if run.has_checkpoint else {}
    check_initial_model(settings.network, recorded)
    check_client(settings.run.logger)
    # Before the data are read and the model is made. Of several workers the first trains in it, and the others may.
    if devices != "workers":
        run.check_free()
    strategy = set_up(settings.run)
    experiment = Experiment.of(settings, strategy, classes=recorded.get("classes"))
    check_images(recorded, experiment.splits, run.path)
    check_queries(experiment.splits)
    check_baselines(experiment)
    for sentence in of_one_class(experiment.splits):
        logging.warning(sentence)
    stop = StopRequest()
    try:
        with experiment.naming_unreadable():
            result = _train(experiment, run, serialized, stop, longer)
    except LOST_WORKER as error:
        if devices != "workers":
            raise
        if stop.requested:
            raise TrainingStopped(f"Stopped by {stop.requested}, and by the first worker, which saves.") from error
        raise OSError(
            "Another worker was lost, and training cannot go on without it. Start all workers again with the same "
            f"command; they go on from the last checkpoint in {run.checkpoints}."
        ) from error
    if experiment.chief:
        log_result(run, result)
        run.write_result(result)
        print_result(result, run)
    return result if experiment.chief else None


def _train(experiment, run, serialized, stop, longer):
    settings, chief = experiment.settings, experiment.chief
    # Refuses batches that are too large before a backbone's weights are downloaded.
    drawn = make_sampler(settings.batches.sampler, experiment.splits, settings.evaluation)
    build = functools.partial(build_model, experiment, drawn)
    model, sampler, length = build()
    progress = Progress(length.steps_per_epoch)
    batches = Batches(experiment, model, sampler, progress)
    # Only now, when all flags have proven to work together, does the folder become this run's.
    if chief:
        run.claim(serialized)
        about = to_record(settings.data, experiment.splits.dataset)
        run.record_dataset({**about, **initial_model_record(settings.network)})
        print(f"Training in {run.path}: {length.told(settings.evaluation.evaluate_on)}", flush=True)
    with stop:
        callbacks = RunCallbacks.of(experiment, model, sampler, batches, progress, length, run, stop)
        evaluation = callbacks.evaluation
        if chief:
            put_back(run)
        if callbacks.checkpoint.resume(model, logging.warning) and chief:
            print(f"Going on with {run.path} after step {progress.step}.", flush=True)
            schedule = settings.optimization.schedule
            for sentence in changes_of_schedules(run, model, callbacks.in_order, schedule) if longer else ():
                print(sentence, flush=True)
        if not (progress.at_epoch_end or evaluation.exhausted):
            # The rest of an epoch, which has other steps than those after it.
            end = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: setattr(model, "stop_training", True))
            _fit(experiment, model, batches, [*callbacks.in_order, end], progress, length)
            # With the patience that is left: a run that was not stopped has a single `fit`.
            evaluation.set_state(evaluation.get_state())
        if not evaluation.exhausted:
            _fit(experiment, model, batches, callbacks.in_order, progress, length)
    if evaluation.exhausted:
        ending = f"Stopped after step {progress.step}: {evaluation.patience} evaluations brought no better model."
    else:
        ending = late_rise(evaluation.history, evaluation.monitor)
    if ending and chief:
        print(ending)
    with evaluation.evaluated_weights():
        result = result_of(
            experiment, run, model, evaluation, progress.step, lambda: build(tell=False)[0], callbacks.assignment
        )
    return {**result, "seconds": round(progress.seconds, 1), "environment": environment(), **callbacks.findings()}


def _fit(experiment, model, batches, callbacks, progress, length):
    """Trains from where the run is to its end, or until a callback stops it."""
    rest = length.steps_per_epoch - progress.step % length.steps_per_epoch
    verbose = verbosity(experiment.chief)
    lines = [ProgressLines()] if verbose == 2 else []
    evaluated = experiment.settings.evaluation.evaluate_on
    model.fit(
        batches.training(rest),
        initial_epoch=progress.epoch,
        epochs=length.epochs,
        callbacks=[*callbacks, *lines, EpochProgress(evaluated, experiment.monitor)],
        shuffle=False,
        verbose=verbose,
    )
