"""The callbacks of a run, its progress, and the log of each epoch."""

import dataclasses
import logging
import time
from functools import partial

import keras

from pipelines.operations import tf
from tfdml.callbacks import ClusterLabels, DivergenceGuard, RetrievalEvaluation, SamplerRefresh, WaitingBackbone
from tfdml.callbacks.base import TrainingParts
from tfdml.console.progress_bar import verbosity
from tfdml.registry.loss_hooks import hooks_of
from tfdml.run.directory.checkpoints import CheckpointFolder
from tfdml.run.directory.model_files import save_best
from tfdml.run.loggers import RunLog
from tfdml.run.training.model import initial_embedding
from tfdml.run.training.optimizer import make_average
from tfdml.run.training.run_checkpoint import RunCheckpoint


class Progress(keras.callbacks.Callback):
    """The global step, which callbacks read at any time and the training dataset at the start of each epoch."""

    def __init__(self, steps_per_epoch=None):
        super().__init__()
        self.steps_per_epoch = steps_per_epoch
        self.step = 0
        self._began = time.monotonic()
        self.pipeline_step = tf.Variable(0, trainable=False, dtype=tf.int64)

    @property
    def seconds(self):
        """Seconds that the run has taken, including the time before it was stopped."""
        return time.monotonic() - self._began

    @property
    def epoch(self):
        """Number of complete epochs."""
        return self.step // self.steps_per_epoch

    @property
    def at_epoch_end(self):
        return self.step % self.steps_per_epoch == 0

    def get_state(self):
        return {"seconds": self.seconds}

    def set_state(self, state):
        self._began = time.monotonic() - state["seconds"]

    def on_epoch_begin(self, epoch, logs=None):
        self.pipeline_step.assign(self.step)

    def on_train_batch_end(self, batch, logs=None):
        self.step += 1


class EpochLog(keras.callbacks.Callback):
    """Logs the training metrics of an epoch, the learning rate of the next step, and the statistics of the loss."""

    def __init__(self, log, step):
        super().__init__()
        self.log = log
        self._step = step

    def on_epoch_begin(self, epoch, logs=None):
        self._began = time.monotonic()

    def on_epoch_end(self, epoch, logs=None):
        values = {name: float(value) for name, value in (logs or {}).items()}
        values["learning_rate"] = float(keras.ops.convert_to_numpy(self.model.optimizer.learning_rate))
        seconds = round(time.monotonic() - self._began, 3)
        self.log.write("train", self._step(), values, epoch=epoch + 1, seconds=seconds)
        statistics = {name: float(f"{value:.6g}") for name, value in self.model.loss_statistics().items()}
        self.log.write("pairs", self._step(), statistics, epoch=epoch + 1)


@dataclasses.dataclass(frozen=True)
class RunCallbacks:
    """All callbacks of a run, in the order in which they are called, and those that are used by name.

    `watches` maps names to callbacks with a `finding()` that is added to the result.
    """

    in_order: list[keras.callbacks.Callback]
    evaluation: RetrievalEvaluation
    checkpoint: RunCheckpoint
    watches: dict[str, keras.callbacks.Callback]

    @classmethod
    def of(cls, experiment, model, sampler, batches, progress, length, run, stop):
        settings, chief = experiment.settings, experiment.chief
        log = RunLog(run.path, enabled=chief, logger=settings.run.logger)
        average = make_average(settings.optimization.ema, model)
        evaluation = _evaluation(experiment, model, batches, progress, length, run, log, average)
        parts = TrainingParts(
            images=lambda: experiment.images.evaluation(experiment.splits.train, model, tolerant=True),
            labels=experiment.splits.train.labels,
            sampler=sampler,
            seed=settings.run.seed,
            steps=length.steps,
            steps_per_epoch=length.steps_per_epoch,
            step=lambda: progress.step,
            log=log,
            verbose=verbosity(chief),
        )
        bad_images = experiment.images.bad_images()
        watches = {"bad_images": bad_images} if bad_images else {}
        watches |= model.callbacks(parts) | _refresh_of(parts) | _labeling_of(parts, experiment.splits.clusters)
        averages = {"average": average} if average else {}
        memories = {"memory": model.past_batches} if model.past_batches else {}
        memories |= {"initial_weights": model.initial_weights} if model.initial_weights else {}
        checkpoint = RunCheckpoint(
            CheckpointFolder(run.checkpoints, keep=settings.run.keep_checkpoints),
            progress,
            {"evaluation": evaluation, "log": log, "progress": progress, **averages, **memories, **watches},
            every_steps=settings.run.checkpoint_every,
            stop=stop,
            writes=chief,
        )
        guard = DivergenceGuard(step=lambda: progress.step)
        epoch_log = EpochLog(log, step=lambda: progress.step)
        beginning = initial_embedding(experiment, model, lambda: progress.step, partial(_log_choice, log, chief))
        between = [*beginning, *hooks_of(model.loss).callbacks(parts), *averages.values(), *watches.values()]
        steps = settings.optimization.freeze_until
        waiting = [WaitingBackbone(steps, step=lambda: progress.step)] if steps else []
        in_order = [progress, *waiting, *between, guard, epoch_log, evaluation, checkpoint]
        return cls(in_order, evaluation, checkpoint, watches)

    @property
    def assignment(self):
        """The cluster of each training image, or None if the data is not divided."""
        return self.watches["clusters"].assignment if "clusters" in self.watches else None

    def findings(self):
        """Returns the findings of the watches by their names."""
        findings = {name: watch.finding() for name, watch in self.watches.items()}
        return {name: finding for name, finding in findings.items() if finding is not None}


def _log_choice(log, chief, kind, recalls):
    log.write("initial_embedding", 0, recalls, kind=kind)
    if chief:
        scores = ", ".join(f"{name} {100 * recall:.1f}%" for name, recall in recalls.items())
        message = "Initial embedding: --initial_embedding=%s has the best Recall@1 on held-out training classes (%s)."
        logging.getLogger(__name__).info(message, kind, scores)


def _refresh_of(parts):
    """Returns the callback that refreshes the sampler by its name, or nothing if the sampler only needs labels."""
    if not parts.sampler.refresh_every:
        return {}
    refresh = SamplerRefresh(parts.images(), parts.sampler, count=len(parts.labels), **parts.of_passes())
    return {"sampler": refresh}


def _labeling_of(parts, clusters):
    """Returns the callback that assigns cluster labels by its name, or nothing if there are classes."""
    if not clusters:
        return {}
    options = {"every": clusters.every, "iterations": clusters.iterations, "seed": parts.seed}
    options |= {"count": len(parts.labels), **parts.of_passes()}
    return {"pseudo_classes": ClusterLabels(parts.images(), parts.sampler, clusters.k, **options)}


def _evaluation(experiment, model, batches, progress, length, run, log, average):
    """Returns the callback that evaluates the model during training and saves the best one."""
    split, protocol = experiment.splits.evaluation, experiment.splits.protocol
    evaluate_on, (every, unit) = experiment.settings.evaluation.evaluate_on, length.evaluations

    def on_evaluation(step, metrics, is_best, seconds):
        # The number of queries is constant, so it is not a curve.
        curves = {name: value for name, value in metrics.items() if name != "queries"}
        more = {"queries": metrics["queries"]} if "queries" in metrics else {}
        log.write("evaluation", step, curves, split=evaluate_on, seconds=round(seconds, 3), **more)
        if is_best and experiment.chief:
            save_best(model, run)

    return RetrievalEvaluation(
        batches.evaluation,
        split.labels,
        every=every,
        unit=unit,
        prefix=evaluate_on,
        patience=length.patience,
        patience_from=length.patience_from,
        measure=lambda embeddings: experiment.measure(embeddings, split, protocol.while_training, model),
        monitor=experiment.monitor,
        on_evaluation=on_evaluation,
        step=lambda: progress.step,
        average=average,
        verbose=verbosity(experiment.chief),
    )
