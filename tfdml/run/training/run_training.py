"""Trains a run, from its flags to its result."""

import functools
import logging

import keras
from keras import ops

from pipelines.operations import tf
from tfdml.callbacks import TemperatureSchedule
from tfdml.callbacks.schedules import temperature_at
from tfdml.console.progress_bar import verbosity
from tfdml.console.progress_lines import EpochProgress, ProgressLines
from tfdml.console.settings import names_with
from tfdml.console.startup import TrainingStopped
from tfdml.run.directory.run_directory import environment
from tfdml.run.experiment.experiment import Experiment, set_up
from tfdml.run.experiment.images import Batches
from tfdml.run.experiment.length import late_rise, steps_of
from tfdml.run.experiment.splits import check_images, check_queries, of_one_class, to_record
from tfdml.run.loggers import check_client, log_result
from tfdml.run.training.gain import check_baselines, put_back
from tfdml.run.training.initial_model import (
    check_initial_model,
    initial_model_record,
    initial_weights_record,
)
from tfdml.run.training.model import build_model
from tfdml.run.training.references import References
from tfdml.run.training.result import result_of
from tfdml.run.training.run_callbacks import Progress, RunCallbacks
from tfdml.run.training.run_sampler import make_sampler
from tfdml.run.training.training_process import StopRequest

# Flags that can make a complete run longer.
LENGTH = names_with(is_length=True)


def going_on(run, settings, serialized):
    """Returns the settings and flags to use in a run directory, and whether they make an existing run longer.

    An existing run keeps the length of its epochs if the flags do not set it, so that its new flags are those of a run
    that had the new length from the start. `serialized` are the settings as `{name: "--name=value"}`.
    """
    as_given = settings, serialized, False
    if not run.has_flags or not run.has_begun():
        return as_given
    before, saved = run.settings().length, run.serialized()
    if settings.length == before:
        return as_given
    of_epoch = before.steps_per_epoch
    if not of_epoch:
        # After the first epoch, the log contains it.
        of_epoch = next((event["step"] // event["epoch"] for event in run.events("train")), 0)
    if not of_epoch or settings.length.steps_per_epoch not in (0, of_epoch):
        return as_given
    kept = {**serialized, "steps_per_epoch": f"--steps_per_epoch={of_epoch}"}
    settings = settings.replace(steps_per_epoch=of_epoch)
    if all(kept[name] == saved[name] for name in LENGTH):
        return settings, kept, False
    earlier, longer = (steps_of(length, of_epoch) for length in (before, settings.length))
    if run.result() is None or longer <= earlier:
        return as_given
    # If other flags differ as well, fail with that error first.
    run.check_claim(serialized, may_change=LENGTH)
    _check(run, run.complete_result()["step"], earlier, longer, of_epoch)
    return settings, kept, True


def changes_of_schedules(run, model, callbacks, spec):
    """Returns a sentence for each schedule that does not resume at the value with which the run had ended.

    The log and the optimizer are at the step at which the run resumes. `spec` is the value of `--schedule`.
    """
    step, sentences, end = 0, [], "at the end of the run and resumes at"
    now = float(ops.convert_to_numpy(model.optimizer.learning_rate))
    for event in run.events("train")[-1:]:
        step, was = event["step"], event["learning_rate"]
        if was != now:
            change = f"was {was:.3g} {end} {now:.3g}"
            sentences.append(f"--schedule={spec} depends on the length of the run: the learning rate {change}.")
    for each in callbacks:
        if isinstance(each, TemperatureSchedule) and each.first != each.last:
            now = temperature_at(step, each.first, each.last, each.steps)
            change = f"it was {each.last:g} {end} {now:g}"
            sentences.append(f"The negative temperature depends on the length of the run: {change}.")
    return sentences


def _check(run, step, earlier, longer, of_epoch):
    """Raises a ValueError if a run of `earlier` steps, complete after `step`, cannot become `longer`."""
    if step < earlier:
        raise ValueError(
            f"The run in --run_dir={run.path} cannot be made longer: --patience stopped it after step {step} of "
            f"{earlier}, and would stop a longer run at the same step. Use another --run_dir."
        )
    if longer % of_epoch:
        raise ValueError(
            f"--steps={longer} must be a multiple of {of_epoch}, because the run in --run_dir={run.path} has epochs of "
            f"{of_epoch} steps. Set --steps={-(-longer // of_epoch) * of_epoch}, or use another --run_dir."
        )
    if not run.has_checkpoint:
        raise ValueError(
            f"The run in --run_dir={run.path} cannot be made longer because its checkpoints are gone. Use another "
            "--run_dir."
        )


LOGGER = logging.getLogger(__name__)
# Errors of TensorFlow's collective operations if another process is gone.
LOST_WORKER = (tf.errors.UnavailableError, tf.errors.AbortedError, tf.errors.DeadlineExceededError)


def train(settings, run, serialized, open_exported=None):
    """Trains or resumes the run in a run directory. Returns the result.

    A complete run continues if the settings make it longer. Only the first worker returns a result, the others None.
    `serialized` are the settings as `{name: "--name=value"}`, which identify a run. `open_exported` opens a
    teacher that is an exported model.
    """
    settings, serialized, longer = going_on(run, settings, serialized)
    run.check_claim(serialized, may_change=LENGTH if longer else ())
    result = run.result()
    if result is not None and not longer:
        message = (
            "The run in %s is already complete. To train it longer, set --steps to a larger number. To start a new "
            "run, set another --run_dir."
        )
        LOGGER.info(message, run.path)
        return result
    asked, devices = settings.length, settings.run.devices
    if asked.steps and asked.epochs:
        message = "The run trains for --steps=%d and ignores --epochs=%d. To train for epochs, set --steps=0."
        LOGGER.info(message, asked.steps, asked.epochs)
    for sentence in settings.without_effect():
        LOGGER.warning(sentence)
    # A resumed run keeps its classes, even if the dataset has changed.
    recorded = run.recorded_dataset() if run.has_checkpoint else {}
    check_initial_model(settings.network, recorded)
    check_client(settings.run.logger)
    # Fail before the dataset is read. With several workers, the directory is shared.
    if devices != "workers":
        run.check_free()
    strategy = set_up(settings.run)
    experiment = Experiment.of(settings, strategy, classes=recorded.get("classes"))
    check_images(recorded, experiment.splits, run.path)
    check_queries(experiment.splits)
    check_baselines(experiment)
    for sentence in of_one_class(experiment.splits):
        LOGGER.warning(sentence)
    stop = StopRequest()
    try:
        with experiment.naming_unreadable():
            result = _train(experiment, run, serialized, stop, longer, open_exported)
    except LOST_WORKER as error:
        if devices != "workers":
            raise
        if stop.requested:
            raise TrainingStopped(f"Stopped by {stop.requested}. The first worker saves the run.") from error
        raise OSError(
            "Another worker was lost, and training cannot continue without it. Start all workers again with the same "
            f"command. They resume from the last checkpoint in {run.checkpoints}."
        ) from error
    if experiment.chief:
        log_result(run, result)
        run.write_result(result)
    return result if experiment.chief else None


def _train(experiment, run, serialized, stop, longer, open_exported):
    settings, chief = experiment.settings, experiment.chief
    # Batches that are too large fail before the weights of a backbone are downloaded.
    drawn = make_sampler(settings.batches.sampler, experiment.splits, settings.evaluation)
    references = References(experiment, run, open_exported)
    build = functools.partial(build_model, experiment, drawn, references.teacher_dims)
    model, sampler, length = build()
    references.compute(model, build)
    progress = Progress(length.steps_per_epoch)
    batches = Batches(experiment, model, sampler, progress, references)
    # The directory is only claimed now, after all flags have proven to work together.
    if chief:
        run.claim(serialized)
        record = to_record(settings.data, experiment.splits.dataset)
        # A resumed run keeps the record of the file that it started from.
        weights = initial_weights_record(settings.network) | _of_weights(run)
        run.record_dataset({**record, **initial_model_record(settings.network), **weights, **references.record()})
        references.write()
        LOGGER.info("Training in %s: %s", run.path, length.in_words(settings.evaluation.evaluate_on))
    with stop:
        callbacks = RunCallbacks.of(experiment, model, sampler, batches, progress, length, run, stop)
        evaluation = callbacks.evaluation
        if chief:
            put_back(run)
        if callbacks.checkpoint.resume(model, LOGGER.warning) and chief:
            LOGGER.info("Resuming %s after step %d.", run.path, progress.step)
            schedule = settings.optimization.schedule
            for sentence in changes_of_schedules(run, model, callbacks.in_order, schedule) if longer else ():
                LOGGER.info(sentence)
        if not (progress.at_epoch_end or evaluation.exhausted):
            # The rest of a partial epoch has fewer steps than the next epochs, so it needs its own `fit`.
            end = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: setattr(model, "stop_training", True))
            _fit(experiment, model, batches, [*callbacks.in_order, end], progress, length)
            # Keep the patience that is left, because an uninterrupted run has a single `fit`.
            evaluation.set_state(evaluation.get_state())
        if not evaluation.exhausted:
            _fit(experiment, model, batches, callbacks.in_order, progress, length)
    if evaluation.exhausted:
        ending = (
            f"Stopped early after step {progress.step}: no improvement in the last {evaluation.patience} evaluations."
        )
    else:
        ending = late_rise(evaluation.history, evaluation.monitor)
    if ending and chief:
        LOGGER.info(ending)
    with evaluation.evaluated_weights():
        result = result_of(
            experiment,
            run,
            model,
            evaluation,
            progress.step,
            lambda: build(tell=False)[0],
            callbacks.assignment,
            references,
        )
    about = {"seconds": round(progress.seconds, 1), "environment": environment(), **_of_weights(run)}
    return {**result, **about, **callbacks.findings()}


def _of_weights(run):
    """Returns what a run directory has recorded about the file of `--initial_weights`, or an empty dictionary."""
    name = "initial_weights"
    return {name: found} if (found := run.recorded_dataset().get(name)) else {}


def _fit(experiment, model, batches, callbacks, progress, length):
    """Trains from the current step to the end, or until a callback stops the run."""
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
