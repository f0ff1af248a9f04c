"""Flags to data, model and callbacks: the one place that joins the rooms."""

import sys

import keras
import numpy as np
import tensorflow as tf
from absl import logging

from pipelines.images.errors import reason_of
from pipelines.sampling import WithinClusters
from tfdml import registry
from tfdml.callbacks import DivergenceGuard, Recluster, RetrievalEvaluation, TemperatureSchedule
from tfdml.evaluation import Embedder
from tfdml.preprocessing import image_size_of
from tfdml.run.batch_pairs import check_pairs
from tfdml.run.checkpoint_folder import CheckpointFolder
from tfdml.run.devices import is_chief
from tfdml.run.epoch_log import EpochLog
from tfdml.run.image_data import ImageData
from tfdml.run.model_files import load_weights, save_model
from tfdml.run.optimizer import check_frozen_batch_norm, check_loss, make_average, make_optimizer
from tfdml.run.run_checkpoint import RunCheckpoint
from tfdml.run.run_directory import RunDirectory
from tfdml.run.run_log import RunLog
from tfdml.run.splits import held_out, load_splits
from tfdml.run.tensorflow_setup import start_tensorflow
from tfdml.run.unreadable import naming_unreadable


class Experiment:
    """The parts of a run that its settings describe, each made when it is first needed.

    Args:
        settings: namespace with the flags' values, see `flags.settings_of`.
        **splits: what `load_splits` takes: `classes`, `test_only`.
    """

    def __init__(self, settings, **splits):
        self.settings, self._splits = settings, splits
        if settings.jit_compile and settings.deterministic:
            raise ValueError("--jit_compile needs --nodeterministic: XLA has no deterministic form of some operations.")
        # First of all: TensorFlow's devices cannot be set up after it has computed something.
        self.strategy = start_tensorflow(settings.devices, settings.deterministic)
        registry.import_modules(settings.import_modules)
        self.chief = is_chief(self.strategy)
        self.image_data = ImageData(settings, self.strategy, verbose=bar() if self.chief else 0)
        keras.mixed_precision.set_global_policy(settings.precision)
        if settings.deterministic:
            tf.config.experimental.enable_op_determinism()

    def load_splits(self):
        """Reads the dataset: `train`, `evaluation` (what --evaluate_on names) and `test` splits, and its protocol."""
        self.dataset, self.train, self.evaluation, self.test = load_splits(self.settings, **self._splits)
        self.protocol = registry.create("protocol", self.settings.protocol or self.dataset.protocol)

    def build_model(self):
        """A compiled model with all variables made, under the strategy; the same weights every time."""
        settings = self.settings
        keras.utils.set_random_seed(settings.seed)
        with self.strategy.scope():
            backbone = registry.create("backbone", settings.backbone)
            if settings.initial_weights:
                loaded = load_weights(backbone, settings.initial_weights)
                if self.chief:
                    print(loaded, flush=True)
            model = registry.create(
                "method",
                settings.method,
                backbone=backbone,
                embedding_size=settings.embedding_size,
                freeze_batch_norm=settings.freeze_batch_norm,
            )
            check_frozen_batch_norm(model, settings)
            model.preprocessing = self.image_data.preprocessing(model)
            size = image_size_of(backbone, settings.image_size)
            try:
                model(np.zeros((1, size, size, 3), np.float32))
            except tf.errors.InvalidArgumentError as error:
                raise ValueError(
                    f"--backbone={settings.backbone} does not take images of {size} x {size} pixels; give another "
                    f"--image_size. TensorFlow says: {reason_of(error)}"
                ) from None
            loss = registry.create("loss", settings.loss, classes=self.train.num_classes)
            check_loss(loss, self.train.num_classes, settings)
            sampler, steps_per_epoch = self.make_sampler()
            check_pairs(loss, sampler, self.train.labels, settings)
            optimizer = make_optimizer(settings, steps_per_epoch)
            model.compile(optimizer=optimizer, loss=loss, jit_compile=settings.jit_compile)
            optimizer.build(model.trainable_variables)
        return model

    def make_sampler(self):
        """The sampler bound to the training rows, and the number of steps in an epoch."""
        settings = self.settings
        sampler = registry.create("sampler", settings.sampler)
        try:
            sampler.bind(self.train.labels)
        except ValueError as error:
            reasons = held_out(settings, self.dataset, self.evaluation)
            told = f"--sampler={settings.sampler}: {error}"
            raise ValueError(" ".join([told, *reasons, *["Or hold out fewer."] * bool(reasons)])) from None
        replicas = self.strategy.num_replicas_in_sync
        if sampler.batch_size % replicas:
            raise ValueError(
                f"The batch of {sampler.batch_size} images of --sampler={settings.sampler} does not split evenly "
                f"over {replicas} replicas."
            )
        return sampler, settings.steps_per_epoch or max(len(self.train) // sampler.batch_size, 1)

    def divided(self, sampler, model):
        """The sampler, within clusters where the model's method divides the data; bound to the training rows."""
        if not hasattr(model, "division"):
            return sampler
        sampler = WithinClusters(sampler, model.division.cluster_order)
        sampler.bind(self.train.labels)
        return sampler

    def training_data(self, model, sampler, progress, length):
        """The training dataset, whose passes have `length` steps."""
        return self.image_data.training(self.train, model, sampler, progress, length)

    def evaluation_data(self, model, split):
        """Batches of a split's images, as evaluation sees them."""
        return self.image_data.evaluation(split, model)

    def measure(self, model, split):
        """Retrieval metrics of a model on a split."""
        return self.protocol(self.embed(model, split), split)

    def embed(self, model, split):
        """Embeddings of a split's images."""
        with self.naming_unreadable():
            return Embedder(model, verbose=bar())(self.evaluation_data(model, split), len(split))

    def callbacks(self, model, run, stop, progress, sampler):
        """All callbacks of a run, in the order in which they act, and those that the run itself asks things of."""
        settings = self.settings
        log = RunLog(run.path, enabled=self.chief)

        def on_evaluation(step, metrics, is_best, seconds):
            # How many queries there are is no curve.
            curves = {name: value for name, value in metrics.items() if name != "queries"}
            more = {name: value for name, value in metrics.items() if name == "queries"}
            log.write("evaluation", step, curves, split=settings.evaluate_on, seconds=round(seconds, 3), **more)
            if is_best and self.chief:
                save_model(model, run.model)

        average = make_average(settings, model)
        evaluation = RetrievalEvaluation(
            self.evaluation_data(model, self.evaluation),
            self.evaluation.labels,
            every=settings.eval_every,
            unit=settings.eval_unit,
            prefix=settings.evaluate_on,
            patience=settings.patience or None,
            measure=lambda embeddings: self.protocol(embeddings, self.evaluation),
            on_evaluation=on_evaluation,
            step=lambda: progress.step,
            average=average,
            verbose=bar() if self.chief else 0,
        )
        averages = {"average": average} if average else {}
        watches = self.image_data.callbacks(self.train)
        if hasattr(model, "division"):
            watches["clusters"] = Recluster(
                self.image_data.evaluation(self.train, model, tolerant=True),
                self.train.labels,
                sampler,
                seed=settings.seed,
                log=log,
                step=lambda: progress.step,
                verbose=bar() if self.chief else 0,
            )
        checkpoint = RunCheckpoint(
            CheckpointFolder(run.checkpoints, keep=settings.keep_checkpoints),
            progress,
            {"evaluation": evaluation, "log": log, "progress": progress, **averages, **watches},
            every_steps=settings.checkpoint_every,
            stop=stop,
            writes=self.chief,
        )
        guard = DivergenceGuard(step=lambda: progress.step)
        epoch_log = EpochLog(log, step=lambda: progress.step)
        self._watches = watches
        between = [*self._schedules(model, progress), *averages.values(), *watches.values()]
        return [progress, *between, guard, epoch_log, evaluation, checkpoint], evaluation, checkpoint

    def findings(self):
        """What a run's result tells besides metrics: of bad images, and of clusters."""
        return {name: found for name, watch in self._watches.items() if (found := watch.finding()) is not None}

    def _schedules(self, model, progress):
        """What changes from step to step besides the weights."""
        steps, schedules = self.settings.epochs * progress.steps_per_epoch, []
        for _, loss in getattr(model.loss, "terms", [(1.0, model.loss)]):
            last = getattr(loss, "final_negative_temperature", None)
            if last is not None:
                first, step = loss.negative_temperature, lambda: progress.step
                schedules.append(TemperatureSchedule(first, last, steps, step=step, loss=loss))
        return schedules

    def naming_unreadable(self):
        """A context whose errors name images that cannot be read."""
        others = [self.evaluation, self.test]
        return naming_unreadable(self.train, others, tolerant=self.settings.max_bad_images > 0)


def trained(run_dir, which, changes=()):
    """The experiment of a run directory, on one machine, and its `best` or `final` model.

    Args:
        run_dir: path of the run.
        which: `best` or `final`.
        changes: settings to replace, name to value.
    """
    if not run_dir:
        raise ValueError("--run_dir is missing: the folder of a run.")
    run = RunDirectory(run_dir)
    settings = run.settings()
    changes = dict(changes)
    recorded = {} if "dataset" in changes else run.recorded_dataset()
    changes = {**recorded.get("flags", {}), **changes}
    # A cache is of use where images are seen more than once.
    vars(settings).update({"devices": "auto", "evaluate_on": "test", "folds": 0, "cache": "none", **changes})
    experiment = Experiment(settings, classes=recorded.get("classes"), test_only=True)
    model = keras.models.load_model(run.model_file(which), compile=False)
    # Models of older runs do not say it themselves.
    model.preprocessing = model.preprocessing or experiment.image_data.preprocessing(model)
    return experiment, model


def verbosity():
    """Keras' verbosity of training: a bar where someone looks, a line an epoch in a file."""
    return 1 if sys.stdout.isatty() else 2


def bar():
    """Keras' verbosity of an embedding pass: a bar where someone looks, nothing in a file."""
    return 1 if sys.stdout.isatty() else 0


def warn(message):
    logging.warning(message)
