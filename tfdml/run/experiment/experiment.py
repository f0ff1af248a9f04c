"""The data and devices of a run, made from its settings."""

import dataclasses
import logging
import os
from pathlib import Path

import keras
import tensorflow as tf

from pipelines.reading.unreadable import naming_unreadable
from tfdml import registry
from tfdml.console.progress_bar import verbosity
from tfdml.console.settings import Settings, values_of
from tfdml.evaluation import Embedder
from tfdml.run.directory.model_archive import check_modules, load_archive
from tfdml.run.directory.run_directory import RunDirectory
from tfdml.run.experiment.images import ImageData
from tfdml.run.experiment.splits import Splits, changed_images, protocol_spec
from tfdml.runtime.devices import is_chief, strategy_for
from tfdml.runtime.workers import Workers


def set_up(settings):
    """Sets up TensorFlow, Keras and the user's modules for `RunSettings`; returns the `tf.distribute.Strategy`."""
    if settings.jit_compile and settings.deterministic:
        raise ValueError("--jit_compile needs --nodeterministic: XLA has no deterministic form of some operations.")
    # First of all: TensorFlow's devices cannot be set up after it has computed something.
    strategy = start_tensorflow(settings.devices, settings.deterministic)
    registry.import_modules(settings.import_modules)
    keras.mixed_precision.set_global_policy(settings.precision)
    if settings.deterministic:
        tf.config.experimental.enable_op_determinism()
    return strategy


def start_tensorflow(devices, deterministic):
    """Sets up threads, precision and devices of TensorFlow; returns the `tf.distribute.Strategy` of `--devices`."""
    if deterministic:
        # TensorFlow sums three gradients or more in the order in which their buffers come free, which depends on
        # timing where operations run at once. Its deterministic operations do not cover this; one thread does.
        # Operations themselves may use all cores.
        tf.config.threading.set_inter_op_parallelism_threads(1)
    # Where a GPU computes the model, the cores prepare images, one each: sharing the small operations on an image
    # among cores takes longer than they do.
    on_gpu = not devices.startswith("cpu") and tf.config.list_physical_devices("GPU")
    if on_gpu and not os.environ.get("TF_NUM_INTRAOP_THREADS"):
        tf.config.threading.set_intra_op_parallelism_threads(1)
    # On some GPUs TensorFlow would otherwise round float32 products to ten bits, in distances and losses too.
    tf.config.experimental.enable_tensor_float_32_execution(False)
    # What is set as TensorFlow starts holds for the functions of input pipelines, whose graphs each pass would improve
    # anew, for a quarter of a second and no gain; what is set later, for all other functions.
    _improve_graphs(False)
    try:
        strategy = strategy_for(devices)
        tf.config.list_logical_devices()
    finally:
        _improve_graphs(True)
    return strategy


def _improve_graphs(wanted):
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": not wanted})


# Settings of runs that are opened in one process, for which TensorFlow is set up once.
AMONG_RUNS = values_of("among_runs")


@dataclasses.dataclass(frozen=True)
class Experiment:
    """Splits of a dataset, how their images are read, and how a model is measured on them under a strategy."""

    settings: Settings
    strategy: tf.distribute.Strategy
    splits: Splits
    images: ImageData

    @classmethod
    def of(cls, settings, strategy, **splits):
        """Reads the dataset that the settings name; `splits` are `classes` and `test_only` of `Splits.of`."""
        seed, verbose = settings.run.seed, verbosity(is_chief(strategy))
        splits = Splits.of(settings.data, settings.evaluation, seed, **splits)
        images = ImageData(settings.images, strategy, train=splits.train, seed=seed, verbose=verbose)
        return cls(settings, strategy, splits, images)

    @property
    def chief(self):
        """Whether this process writes: the only one, or the first of several workers."""
        return is_chief(self.strategy)

    @property
    def protocol_spec(self):
        """The spec that names the protocol: the settings', or the dataset's."""
        return protocol_spec(self.splits.dataset, self.settings.evaluation)

    @property
    def monitor(self):
        """The name of the metric that selects the best model."""
        return self.splits.protocol.selecting(self.settings.evaluation.select_by)

    def measure(self, embeddings, split, metrics=None):
        """Returns the values of a split's metrics by name; all workers measure together. None: all of the protocol."""
        return self.scores(embeddings, split, metrics).summary()

    def scores(self, embeddings, split, metrics=None):
        """Returns the `Scores` of embeddings of a split; see `measure`."""
        return self.splits.protocol.scores(embeddings, split, metrics, Workers.of(self.strategy))

    def embed(self, model, split, tolerant=False):
        """Returns embeddings of a split's images; for `tolerant` see `ImageData.evaluation`."""
        with self.naming_unreadable():
            images = self.images.evaluation(split, model, tolerant)
            of = f"{self.splits.part_of(split)} images".lstrip()
            return Embedder(model, verbose=verbosity(self.chief), of=of)(images, len(split))

    def naming_unreadable(self):
        """A context whose errors name images that cannot be read."""
        others = [self.splits.evaluation, self.splits.test]
        return naming_unreadable(self.splits.train, others, tolerant=self.settings.images.max_bad_images > 0)


def trained(run_dir, which, changes=(), *, test_only=True):
    """Returns the experiment of a run directory, on one machine, and its `best` or `final` model.

    `changes` replaces settings, name to value; of `import_modules` the user's own, see `check_modules`. With
    `test_only`, only the test split is read.
    """
    settings, strategy, model, classes = _opened(run_dir, which, dict(changes))
    experiment = Experiment.of(settings, strategy, classes=classes, test_only=test_only)
    if "dataset" not in dict(changes):
        # Images may be gone or new, as where a list that leaves some out was cut.
        recorded, parts = RunDirectory(run_dir).recorded_dataset(), ["test"] if test_only else ["train", "test"]
        if changed := changed_images(recorded, experiment.splits.dataset, run_dir, parts):
            logging.getLogger(__name__).warning("%s The numbers are those of other images.", changed)
    return experiment, model


def trained_model(run_dir, which, changes=()):
    """Returns the `best` or `final` model of a run directory; its dataset need not be there."""
    return _opened(run_dir, which, dict(changes))[2]


def _opened(run_dir, which, changes):
    """Returns settings, strategy and model of a run, and the classes of its splits if it recorded them."""
    if not run_dir:
        raise ValueError("--run_dir is missing: the folder of a run.")
    run = RunDirectory(run_dir)
    settings = run.settings()
    check_modules(settings.run.import_modules, run.path, trusted=changes.get("import_modules", ()))
    if run.result() is None and run.model_file(which).is_file():
        logging.getLogger(__name__).warning("The run in %s is not complete: its best model so far is used.", run.path)
    recorded = {} if "dataset" in changes else run.recorded_dataset()
    if "dataset" in recorded.get("flags", {}):
        changes = {"dataset": recorded["flags"]["dataset"], **changes}
    if "data_dir" in changes and "ignore_images" not in changes:
        changes["ignore_images"] = _moved(settings.data.ignore_images, settings.data.data_dir, changes["data_dir"])
    settings = settings.replace(**{**values_of("in_opened_run"), **changes})
    strategy = set_up(settings.run)
    model = load_archive(run.model_file(which))
    return settings, strategy, model, recorded.get("classes")


def _moved(path, before, now):
    """Returns a path in the folder `before` as one in the folder `now`, and any other path as it is."""
    inside = path and before and Path(path).is_relative_to(before)
    return str(Path(now) / Path(path).relative_to(before)) if inside else path
