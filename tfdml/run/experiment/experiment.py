"""The data and devices of a run, created from its settings."""

import dataclasses
import logging
import os
from pathlib import Path

import keras

from pipelines.operations import tf
from pipelines.reading.unreadable import naming_unreadable
from tfdml import registry
from tfdml.console.progress_bar import verbosity
from tfdml.console.settings import Settings, values_of
from tfdml.evaluation import Embedder
from tfdml.evaluation.protocols.image_text import text_intervals
from tfdml.methods import TwoTowers
from tfdml.run.directory.model_archive import check_modules, load_archive
from tfdml.run.directory.run_directory import RunDirectory
from tfdml.run.experiment.images import ImageData, captions_of
from tfdml.run.experiment.splits import Splits, changed_images, protocol_spec
from tfdml.runtime.devices import is_chief, strategy_for
from tfdml.runtime.workers import Workers


def set_up(settings):
    """Sets up TensorFlow, Keras and the user's modules for `RunSettings`; returns the `tf.distribute.Strategy`."""
    if settings.jit_compile and settings.deterministic:
        raise ValueError(
            "--jit_compile cannot be combined with --deterministic, because XLA has no deterministic form of some "
            "operations. Set --nodeterministic."
        )
    # This comes first, because TensorFlow's devices cannot be set up after it has computed something.
    strategy = start_tensorflow(settings.devices, settings.deterministic)
    registry.import_modules(settings.import_modules)
    keras.mixed_precision.set_global_policy(settings.precision)
    if settings.deterministic:
        tf.config.experimental.enable_op_determinism()
    return strategy


def start_tensorflow(devices, deterministic):
    """Sets up threads, precision and devices of TensorFlow; returns the `tf.distribute.Strategy` of `--devices`."""
    if deterministic:
        # TensorFlow sums three or more gradients in the order in which their buffers become free. If operations run in
        # parallel, this order depends on timing, which deterministic operations do not cover. With a single thread,
        # operations run one after another; each of them may still use all cores.
        tf.config.threading.set_inter_op_parallelism_threads(1)
    # If a GPU computes the model, each core prepares its own images. Dividing the small operations on an image among
    # cores would be slower.
    on_gpu = not devices.startswith("cpu") and tf.config.list_physical_devices("GPU")
    if on_gpu and not os.environ.get("TF_NUM_INTRAOP_THREADS"):
        tf.config.threading.set_intra_op_parallelism_threads(1)
    # On some GPUs, TensorFlow would otherwise round float32 products to ten bits, even in distances and losses.
    tf.config.experimental.enable_tensor_float_32_execution(False)
    # Graph optimization is off while TensorFlow starts, which applies to the functions of input pipelines. There, it
    # would cost 0.25 seconds in each pass and gain nothing. It is on afterwards, for all other functions.
    _improve_graphs(False)
    try:
        strategy = strategy_for(devices)
        tf.config.list_logical_devices()
    finally:
        _improve_graphs(True)
    return strategy


def _improve_graphs(wanted):
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": not wanted})


# Settings that runs share if one process opens them, because TensorFlow is set up only once.
AMONG_RUNS = values_of("among_runs")


@dataclasses.dataclass(frozen=True)
class Experiment:
    """The splits of a dataset, with the settings and the strategy to read their images and to measure a model."""

    settings: Settings
    strategy: "tf.distribute.Strategy"
    splits: Splits
    images: ImageData

    @classmethod
    def of(cls, settings, strategy, **splits):
        """Reads the dataset in the settings. `splits` are the arguments `classes` and `test_only` of `Splits.of`."""
        seed, verbose = settings.run.seed, verbosity(is_chief(strategy))
        splits = Splits.of(settings.data, settings.evaluation, seed, **splits)
        images = ImageData(settings.images, strategy, train=splits.train, seed=seed, verbose=verbose)
        return cls(settings, strategy, splits, images)

    @property
    def chief(self):
        """Whether this process writes files, which the only process or the first of several workers does."""
        return is_chief(self.strategy)

    @property
    def protocol_spec(self):
        """The spec of the protocol, from the settings or else from the dataset."""
        return protocol_spec(self.splits.dataset, self.settings.evaluation)

    @property
    def monitor(self):
        """The name of the metric that selects the best model."""
        return self.splits.protocol.selecting(self.settings.evaluation.select_by)

    def measure(self, embeddings, split, metrics=None, model=None):
        """Returns the values of metrics by name, by default of all the protocol's. All workers measure together.

        If the protocol measures captions, `model` is the model that embeds them.
        """
        texts = self.text_scores(model, embeddings, split) if model is not None else {}
        return {**text_values(texts), **self.scores(embeddings, split, metrics).summary()}

    def text_scores(self, model, embeddings, split):
        """Returns the `Scores` between a split's images and captions, by direction; `{}` if none are measured."""
        if not self.splits.protocol.takes_texts:
            return {}
        if not isinstance(model, TwoTowers):
            raise ValueError(
                "The protocol 'image_text' needs a model with a text tower. Set --method=two_towers, or another "
                f"--protocol. Received: a {type(model).__name__} model."
            )
        captions = captions_of(split)
        return self.splits.protocol.text_scores(embeddings, model.embed_texts(captions.texts), captions.pairs)

    def text_intervals(self, found, split):
        """Returns confidence intervals of what `text_scores` found for a split."""
        return text_intervals(found, captions_of(split).pairs, split.labels) if found else {}

    def scores(self, embeddings, split, metrics=None):
        """Returns the `Scores` of embeddings of a split; see `measure`."""
        return self.splits.protocol.scores(embeddings, split, metrics, Workers.of(self.strategy))

    def embed(self, model, split, tolerant=False):
        """Returns the embeddings of a split's images. For `tolerant`, see `ImageData.evaluation`."""
        with self.naming_unreadable():
            images = self.images.evaluation(split, model, tolerant)
            of = f"{self.splits.part_of(split)} images".lstrip()
            return Embedder(model, verbose=verbosity(self.chief), of=of)(images, len(split))

    def naming_unreadable(self):
        """Returns a context in which errors name the images that cannot be read."""
        others = [self.splits.evaluation, self.splits.test]
        return naming_unreadable(self.splits.train, others, tolerant=self.settings.images.max_bad_images > 0)


def text_values(found):
    """Returns the values of metrics by name of what `Experiment.text_scores` found."""
    return {name: value for scores in found.values() for name, value in scores.values.items()}


def trained(run_dir, which, changes=(), *, test_only=True):
    """Returns the experiment of a run directory, on one machine, and its `best` or `final` model.

    `changes` maps names of settings to new values. Its `import_modules` are the modules that the user trusts; see
    `check_modules`. With `test_only`, only the test split is read.
    """
    settings, strategy, model, classes = _opened(run_dir, which, dict(changes))
    experiment = Experiment.of(settings, strategy, classes=classes, test_only=test_only)
    if "dataset" not in dict(changes):
        # Images may be missing or new, for example because a list of ignored images was cut.
        recorded, parts = RunDirectory(run_dir).recorded_dataset(), ["test"] if test_only else ["train", "test"]
        if changed := changed_images(recorded, experiment.splits.dataset, run_dir, parts):
            logging.getLogger(__name__).warning("%s Scores now come from different images.", changed)
    return experiment, model


def trained_model(run_dir, which, changes=()):
    """Returns the `best` or `final` model of a run directory, without reading the dataset."""
    return _opened(run_dir, which, dict(changes))[2]


def _opened(run_dir, which, changes):
    """Returns settings, strategy and model of a run, and the classes of its splits if it recorded them."""
    if not run_dir:
        raise ValueError("--run_dir is missing. Set it to the folder of a run.")
    run = RunDirectory(run_dir)
    settings = run.settings()
    check_modules(settings.run.import_modules, run.path, trusted=changes.get("import_modules", ()))
    if run.result() is None and run.model_file(which).is_file():
        logging.getLogger(__name__).warning("The run in %s is not complete. Using its best model so far.", run.path)
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
    """Returns a path in the folder `before` as the same path in the folder `now`. Other paths remain unchanged."""
    inside = path and before and Path(path).is_relative_to(before)
    return str(Path(now) / Path(path).relative_to(before)) if inside else path
