"""Loads trained models from files, and embeds images with them."""

import functools
import hashlib
import itertools
import threading
import warnings
from pathlib import Path
from typing import Literal

import keras
import numpy as np
import tensorflow as tf

from pipelines.build import CORES, evaluation_batches
from pipelines.dataset import Split
from pipelines.preprocessing import Preprocessing, VectorPreprocessing, why_no_pixels
from pipelines.preprocessor import Preprocessor
from pipelines.reading.cache import file_reader
from pipelines.reading.sources import FILES, Images, listed, split_of, texts_of
from pipelines.reading.unreadable import naming_image
from tfdml import registry
from tfdml.console.progress_bar import ProgressBar
from tfdml.evaluation.embedder import Embedder
from tfdml.methods import EmbeddingModel
from tfdml.registry.arguments import Count, FilePath, Verbosity
from tfdml.registry.fields import declared
from tfdml.run.directory.model_archive import check_modules, damage_of, load_archive
from tfdml.run.directory.run_directory import RunDirectory
from tfdml.runtime.workers import ALONE

# So many images at most are prepared one after another: until a dataset of them is made takes longer.
FEW = 4
# Specs of elements that have one shape and one type.
SPECS = tf.TensorSpec | tf.RaggedTensorSpec
# What the digest of a Keras model begins with.
KERAS = "keras-"


def digest_of(model: keras.Model) -> str:
    """Returns a hash of the weights of a Keras model, which stands for the hash of an exported one."""
    digest = hashlib.sha256()
    for weight in model.weights:
        value = np.asarray(weight)
        digest.update(f"{weight.path} {value.shape} {value.dtype}\n".encode())
        digest.update(np.ascontiguousarray(value).tobytes())
    return KERAS + digest.hexdigest()


class ImageEmbedder:
    """Embeds images with a model, after preprocessing them as the model's file says. `tfdml.load` creates it.

    Args:
        model: model of a method.
        preprocessing: `tfdml.Preprocessing`; None: `model.preprocessing`.
        source: the file of the model, for messages.
    """

    # Of an exported model it is the folder; see `serving.embedders.AnyEmbedder`.
    path = None

    def __init__(
        self,
        model: EmbeddingModel,
        preprocessing: Preprocessing | VectorPreprocessing | None = None,
        source: FilePath = "",
    ):
        self.model, self.source = model, str(source)
        self.preprocessing = preprocessing or model.preprocessing
        if self.preprocessing is None:
            raise ValueError(
                f"{source or model.name} has no preprocessing. Set model.preprocessing before saving the model: "
                "tfdml.Preprocessing.of(model) if it has a backbone of tfdml, otherwise "
                "tfdml.Preprocessing(image_size=..., mean=..., std=...). Or give it with "
                "tfdml.load(file, preprocessing=...)."
            )
        self._prepare, self._lock = Preprocessor.of(self.preprocessing), threading.Lock()

    @functools.cached_property
    def dimension(self) -> int:
        """Number of dimensions of the embedding."""
        # Kept, because it takes as long as embedding an image.
        return self.model(keras.KerasTensor((None, *self.preprocessing.image_shape))).shape[-1]

    @property
    def metric(self) -> str:
        """How embeddings are compared, `cosine` or `euclidean`."""
        return "cosine" if self.model.normalize else "euclidean"

    @property
    def digest(self) -> str:
        """A hash of the weights."""
        return digest_of(self.model)

    def embed_readable(self, images: Images) -> tuple[np.ndarray, np.ndarray]:
        """Returns embeddings `[N, D]`, float32, and whether each image could be read, `[N]`.

        Args:
            images: few images, as `embed` takes them, which raises an error if one cannot be read.
        """
        prepared = [self._prepared(image) for image in listed(images)]
        readable = np.array([each is not None for each in prepared], bool)
        vectors = np.zeros((len(prepared), self.dimension), np.float32)
        if readable.any():
            # Keras makes the function that predicts at the first call.
            batch = np.stack([image for image in prepared if image is not None])
            with self._lock:
                vectors[readable] = self._embedder(0).of_batch(batch)
        return vectors, readable

    def _prepared(self, image):
        """Returns an image as the network accepts it, or None if it cannot be read."""
        try:
            return self.prepare([image])[0]
        except ValueError:
            return None

    @declared
    def embed(self, images: Images, batch_size: Count = 128, verbose: Verbosity = 0) -> np.ndarray:
        """Returns the embeddings `[N, D]` of images, float32: the same as in evaluation.

        Args:
            images: one of

                - the path of an image file (`str` or `Path`), or a list of paths;
                - the contents of an image file (`bytes`), or a list of them;
                - an array `[H, W, 3]` or `[N, H, W, 3]` of RGB pixels from 0 to 255, of any dtype, or a list of
                  arrays of any size;
                - a `tf.data.Dataset` of paths, contents or such pixels, batched or not; of a tuple, only the first
                  element;
                - of a model that was trained on stored features, such features `[N, D]`.

            batch_size: number of images that the network processes at once.
            verbose: as in `keras.Model.predict`: 1 or "auto" shows a progress bar, 0 does not.

        Example: `tfdml.load("runs/quickstart").embed(["car.jpg", "other_car.jpg"])`.
        """
        if isinstance(self.preprocessing, VectorPreprocessing):
            return self._embed_vectors(np.asarray(images, np.float32), batch_size, verbose)
        if isinstance(images, tf.data.Dataset):
            if isinstance(images.element_spec, tuple):
                images = images.map(lambda first, *_: first)
            if not (isinstance(images.element_spec, SPECS) and images.element_spec.dtype == tf.string):
                return self._embed_dataset(images, batch_size, verbose)
            images = [each for batch in images for each in texts_of(batch)]
        images = listed(images)
        if not len(images):
            return self._nothing()
        if len(images) <= min(FEW, batch_size) and not verbose:
            return self._embedder(verbose).of_batch(self.prepare(images)).astype(np.float32, copy=False)
        if isinstance(images[0], FILES):
            return self.embed_split(split_of(images), batch_size, verbose)
        return self._embed_arrays(images, batch_size, verbose)

    def prepare(self, images: Images) -> np.ndarray:
        """Returns images as the network `model` takes them, float32 `[N, H, W, 3]`.

        Args:
            images: paths of image files or arrays of pixels, as `embed` takes them.

        Example: `loaded.model(loaded.prepare(["car.jpg", "other_car.jpg"]))`.
        """
        images = listed(images)
        if not len(images):
            return np.zeros((0, *self.preprocessing.image_shape), np.float32)
        seed = tf.zeros([2], tf.int64)
        if isinstance(images[0], FILES):
            split = split_of(images)
            if len(split) > FEW:
                with naming_image(split):
                    return next(iter(evaluation_batches(split, self._prepare, batch_size=len(split)))).numpy()
            # No other error than those of images.
            with naming_image(split, blames=lambda error: True):
                read = file_reader(split)
                return np.stack([self._prepare(read(row), seed).numpy() for row in range(len(split))])
        _warn_unless_pixels(images)
        return np.stack([self._prepare.from_pixels(tf.cast(image, tf.float32), seed).numpy() for image in images])

    def embed_split(self, split: Split, batch_size: int = 128, verbose: Verbosity = "auto") -> np.ndarray:
        """Returns the embeddings `[N, D]` of the images of a `pipelines.datasets.Split`, cropped to its boxes.

        Args:
            split: a dataset's split, such as `pipelines.datasets.load("toycars").test`.
            batch_size, verbose: as of `embed`.
        """
        batches = evaluation_batches(split, self._prepare, batch_size=min(batch_size, len(split)))
        with naming_image(split):
            return self._run(batches, len(split), verbose)

    def __repr__(self):
        preprocessing, name = self.preprocessing, type(self.model).__name__
        source = f" of {self.source}" if self.source else ""
        if isinstance(preprocessing, VectorPreprocessing):
            taken = f"features [N, {preprocessing.dims}]"
        else:
            height, width, _ = preprocessing.image_shape
            taken = f"images of {height} x {width} pixels by {preprocessing.transform!r}"
        return f"<ImageEmbedder{source}: {name}, {self.dimension} dimensions, {taken}>"

    def _embed_vectors(self, vectors, batch_size, verbose):
        dims = self.preprocessing.dims
        if vectors.ndim != 2 or vectors.shape[1] != dims:
            raise ValueError(f"Expected stored features [N, {dims}], no images; received shape {vectors.shape}.")
        if not len(vectors):
            return self._nothing()
        batches = tf.data.Dataset.from_tensor_slices(vectors).batch(batch_size)
        return self._run(batches, len(vectors), verbose)

    def _embed_arrays(self, arrays, batch_size, verbose):
        count = len(arrays)
        _warn_unless_pixels(arrays)
        padding = -count % min(batch_size, count)

        def pixels():
            yield from (np.asarray(array, np.float32) for array in itertools.chain(arrays, [arrays[-1]] * padding))

        dataset = tf.data.Dataset.from_generator(pixels, output_signature=tf.TensorSpec([None, None, 3]))
        dataset = dataset.apply(tf.data.experimental.assert_cardinality(count + padding))
        return self._run(self._batches(dataset, min(batch_size, count)), count, verbose)

    def _embed_dataset(self, dataset, batch_size, verbose):
        shape = dataset.element_spec.shape if isinstance(dataset.element_spec, SPECS) else tf.TensorShape(None)
        if shape.rank not in (3, 4) or shape[-1] not in (3, None):
            raise ValueError(
                "Expected a dataset of paths, or of pixels [height, width, 3] or [batch, height, width, 3]; received "
                f"elements {dataset.element_spec}."
            )
        if dataset.cardinality() == tf.data.INFINITE_CARDINALITY:
            raise ValueError("Expected a finite dataset, received one that repeats forever; use dataset.take(...).")
        for first in dataset.take(1):
            _warn_unless_pixels([first if shape.rank == 3 else first[0]])
            dataset = dataset.unbatch() if shape.rank == 4 else dataset
            # Keras' `predict` warns at the end of a dataset of unknown length.
            bar, embeddings = ProgressBar(None, "batch", verbose=None if verbose == "auto" else verbose), []
            for images in self._batches(dataset, batch_size):
                embeddings.append(self.model.predict_on_batch(images))
                bar.add(1)
            bar.end()
            return np.concatenate(embeddings).astype(np.float32, copy=False)
        return self._nothing()

    def _batches(self, pixels, batch_size):
        seed = tf.zeros([2], tf.int64)

        def prepared(image):
            return self._prepare.from_pixels(tf.ensure_shape(tf.cast(image, tf.float32), [None, None, 3]), seed)

        return pixels.map(prepared, num_parallel_calls=CORES).batch(batch_size).prefetch(2)

    def _run(self, batches, count, verbose):
        return self._embedder(verbose)(batches, count).astype(np.float32, copy=False)

    def _embedder(self, verbose):
        # Other workers need not embed these images.
        return Embedder(self.model, verbose=verbose, workers=ALONE)

    def _nothing(self):
        return np.zeros((0, self.dimension), np.float32)


def _warn_unless_pixels(arrays):
    """Warns of the first array that cannot be pixels from 0 to 255."""
    for position, array in enumerate(arrays):
        if reason := why_no_pixels(np.asarray(array), position):
            warnings.warn(reason, stacklevel=4)
            return


@declared
def load(
    run_or_file: FilePath,
    model: Literal["best", "final"] = "best",
    preprocessing: Preprocessing | None = None,
    trust: bool = False,
) -> ImageEmbedder:
    """Loads a trained model with its preprocessing, to embed images.

    The model's file includes the preprocessing, so a copy of that file alone is enough.

    Args:
        run_or_file: a run directory, or a `.keras` file.
        model: the model of the run directory, `best` or `final`.
        preprocessing: `tfdml.Preprocessing` for a model that was saved without one; None: the model's own.
        trust: whether to import the modules that the run names in its `--import_modules`, which are programs. Those
            that you have imported need no trust.

    Returns:
        An `ImageEmbedder`; its `model` is the Keras model.

    Example: `embeddings = tfdml.load("runs/quickstart").embed(["car.jpg", "other_car.jpg"])`.
    """
    path = Path(run_or_file)
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist: expected a run directory, or a .keras file.")
    if path.suffix == ".h5" and path.is_file():
        raise ValueError(
            f"{path} is not a .keras file, and a file of weights does not contain their model. Expected a run "
            "directory, or a .keras file. Make the model as it was trained, build it, and call "
            "model.load_weights(file). Then model.save('model.keras') saves both."
        )
    folder = path if path.is_dir() else path.parent
    # The flags name modules that register parts of the model.
    settings = RunDirectory(folder).settings() if path.is_dir() or (folder / "flags.txt").is_file() else None
    modules = settings.run.import_modules if settings else ()
    check_modules(modules, folder, trusted=modules if trust else ())
    registry.import_modules(modules)
    file = RunDirectory(path).model_file(model) if path.is_dir() else path
    # That of a run has been looked at: it is read whole for that.
    if not path.is_dir() and (damage := damage_of(file)):
        raise ValueError(f"{file} is not a Keras model, or is damaged: {damage}.")
    loaded = load_archive(file)
    if not isinstance(loaded, EmbeddingModel):
        raise ValueError(f"Expected a model of tfdml.methods, but {file} contains a {type(loaded).__name__}.")
    loaded.preprocessing = preprocessing or loaded.preprocessing
    return ImageEmbedder(loaded, source=file)


def is_loadable(path: FilePath) -> bool:
    """Whether `load` is for a path, by what it looks like: a file, or the folder of a run."""
    return Path(path).is_file() or RunDirectory(path).has_flags
