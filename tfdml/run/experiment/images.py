"""Batches of a run's images, according to its settings."""

import functools
import logging
import math

from pipelines.batches import check_views
from pipelines.build import class_weights, evaluation_batches, training_batches, with_anchors
from pipelines.captions import Captions
from pipelines.datasets.loading import cache_folder
from pipelines.operations import tf
from pipelines.preprocessing import Preprocessing, VectorPreprocessing, declared_by
from pipelines.preprocessor import Preprocessor
from pipelines.reading.cache import Cache, free_memory
from pipelines.reading.unreadable import Substitutes, why_unreadable
from pipelines.sampling import Uniform
from pipelines.stored import vector_dims
from tfdml.methods import TwoTowers
from tfdml.run.training.run_checkpoint import BadImages
from tfdml.runtime.workers import Workers

LOGGER = logging.getLogger(__name__)
# Bytes per value of a prepared image.
FLOAT = 4


class ImageData:
    """Creates datasets of prepared images, optionally with a cache and with substitutes for bad images.

    `train` is the training split, or None. `seed` determines training batches and their augmentation. `verbose` is
    Keras' verbosity of the progress bar for filling the cache.
    """

    def __init__(self, settings, strategy, *, train=None, seed=0, verbose=0):
        self.settings, self.strategy, self.train, self.seed = settings, strategy, train, seed
        self._memory, self.verbose = int(settings.cache_memory * 2**30), verbose
        self._cache = Cache(
            settings.cache,
            memory=self._memory,
            folder=cache_folder(settings.cache_dir),
            tolerant=settings.max_bad_images > 0,
            verbose=verbose,
        )

    @functools.cached_property
    def _substitutes(self):
        """The `Substitutes` of bad training images, or None. Only training needs them."""
        needed = self.settings.max_bad_images and not vector_dims(self.train)
        return Substitutes(self.train.labels) if needed else None

    def preprocessing(self, model, transform=None):
        """Returns the `Preprocessing` of images for the model's backbone, by default for evaluation."""
        if dims := declared_by(model).get("vector_dims"):
            return VectorPreprocessing(dims)
        settings = self.settings
        options = {"transform": transform or settings.test_transform, "shrink": settings.shrink_decoding}
        return Preprocessing.of(model, settings.image_size, **options)

    def preprocessor(self, model, transform):
        """Returns the function that prepares images for the model's backbone."""
        return Preprocessor.of(self.preprocessing(model, transform))

    def check(self, model):
        """Traces both transforms if a cache is filled first, so that incompatible settings are an error at once."""
        if self.settings.cache == "none" or declared_by(model).get("vector_dims"):
            return
        for transform in (self.settings.train_transform, self.settings.test_transform):
            prepare = tf.function(self.preprocessor(model, transform), autograph=False)
            prepare.get_concrete_function(tf.TensorSpec([], tf.string), tf.TensorSpec([2], tf.int64))

    def training(self, model, sampler, progress, length, weight_power=0.0, references=None):
        """Returns the training dataset with passes of `length` steps and the image weights of `--class_weights`.

        `references` are the run's `References` with vectors that become targets, or None.
        """
        split = self.train
        preprocessor = self.preprocessor(model, self.settings.train_transform)
        if self.settings.max_bad_images and not sampler.uses_classes:
            raise ValueError(
                "--max_bad_images needs classes, because it replaces a bad image by another image of its class. List "
                "bad images in --ignore_images instead."
            )
        if sampler.several_views:
            check_views(preprocessor, f"--train_transform={self.settings.train_transform}")
        if weight_power and (not sampler.uses_classes or split.attributes is not None):
            raise ValueError(
                f"--class_weights={weight_power} needs images with a single class each, and these images have none. "
                "Remove it."
            )
        read, prepare = self._cache.through(split, preprocessor)
        takes_pairs = isinstance(model, TwoTowers) and model.takes_pairs
        if takes_pairs and weight_power:
            raise ValueError(f"--class_weights={weight_power} has no effect on pairs of image and text. Remove it.")
        passes = {
            "seed": self.seed,
            "step": progress.pipeline_step,
            "steps_per_epoch": progress.steps_per_epoch,
            "length": length,
        }
        vectors, anchored = references.of_training() if references else ({}, {})
        options = {
            **passes,
            "texts": texts_of(split, model) if takes_pairs else None,
            "read": read,
            "substitutes": self._substitutes,
            "weights": class_weights(split, weight_power) if weight_power else None,
            "vectors": vectors,
        }

        def batches(**share):
            found = training_batches(split, sampler, prepare, **options, **share)
            if not anchored:
                return found
            # As the initial model has seen them, so that the distance to it is 0 at first.
            unchanged = self.preprocessor(model, self.settings.test_transform)
            drawn = anchor_sampler(references.anchors, sampler.batch_size)
            return with_anchors(
                found, training_batches(references.anchors, drawn, unchanged, vectors=anchored, **passes, **share)
            )

        def share_of(context):
            workers = context.num_input_pipelines
            return batches(worker=(context.input_pipeline_id, workers), parts=context.num_replicas_in_sync // workers)

        if isinstance(self.strategy, tf.distribute.MultiWorkerMirroredStrategy):
            return self.strategy.distribute_datasets_from_function(share_of)
        return batches()

    def evaluation(self, split, model, tolerant=False, again=False):
        """Returns this worker's share of the batches of a split's images, prepared for evaluation.

        An unreadable image raises an error. With `tolerant`, it becomes zeros if training tolerates bad images.
        With `again`, the dataset is read several times, so images stay in memory if the settings allow it.
        """
        preprocessor = self.preprocessor(model, self.settings.test_transform)
        read, prepare = self._cache.through(split, preprocessor)
        share, size = Workers.of(self.strategy).share, self.settings.eval_batch_size
        batches = len(share(-(-len(split) // size)))
        needed = batches * size * math.prod(preprocessor.image_shape) * FLOAT
        # Vectors are already in memory, or do not fit.
        keep = again and not vector_dims(split) and self._keeps(needed)
        options = {"batch_size": size, "read": read, "share": share, "keep": keep}
        return evaluation_batches(split, prepare, tolerant=tolerant and self.settings.max_bad_images > 0, **options)

    def _keeps(self, size):
        """Whether prepared images with `size` bytes may stay in memory, which it logs."""
        keeps = self.settings.cache == "none" and size <= min(self._memory, free_memory() / 4)
        if keeps and self.verbose:
            mebibytes = f"{size / 2**20:,.0f}"
            LOGGER.info("Evaluation images stay in memory (%s MiB). To turn this off: --cache_memory=0.", mebibytes)
        return keeps

    def bad_images(self):
        """Returns the callback that counts unreadable training images, or None if training tolerates none."""
        if self._substitutes is None:
            return None
        split = self.train
        return BadImages(
            self._substitutes.unreadable,
            most=self.settings.max_bad_images,
            describe=lambda row: f"{split.name_of(row)} ({why_unreadable(split, row) or 'it can be read now'})",
        )


def anchor_sampler(anchors, count):
    """Returns a sampler of `count` different images of a `Split` per batch, which draws all images equally often."""
    if len(anchors) < count:
        raise ValueError(
            f"--anchor_images has {len(anchors)} images, but each batch needs {count}, as many as it has training "
            "images. Add images, or use smaller batches."
        )
    sampler = Uniform(count)
    sampler.bind(anchors.labels)
    return sampler


def texts_of(split, model):
    """Returns the function that draws captions of a split, as tokens of a `TwoTowers` model; see `Captions.drawn`."""
    captions = captions_of(split)
    return captions.drawn(model.text.tokenizer(captions.texts))


def captions_of(split):
    """Returns the `Captions` of a split, or raises a ValueError if it has none."""
    if split.captions is None:
        raise ValueError(
            "Texts need images with captions, and this dataset has none. Add a column caption to the table of "
            "--dataset=csv, or make captions from class names: --captions='a photo of a {}'."
        )
    return Captions(split.captions)


class Batches:
    """The datasets of training and evaluation, each of which is built once because tracing is slow (up to a second).

    Building them shows whether the images, the transforms and the sampler work together.
    """

    def __init__(self, experiment, model, sampler, progress, references=None):
        images = experiment.images
        images.check(model)
        self.evaluation = images.evaluation(experiment.splits.evaluation, model, again=True)
        power = experiment.settings.batches.class_weights
        options = {"weight_power": power, "references": references}
        make = functools.partial(images.training, model, sampler, progress, **options)
        # Returns the training dataset with passes of a number of steps.
        self.training = functools.cache(make)
        self.training(progress.steps_per_epoch)
