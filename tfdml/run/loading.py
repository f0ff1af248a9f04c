"""Loads trained models from files and embeds images with them."""

import functools
import hashlib
import itertools
import os
import threading
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import keras
import numpy as np

from pipelines.build import CORES, evaluation_batches
from pipelines.dataset import Split
from pipelines.operations import tf
from pipelines.preprocessing import Preprocessing, VectorPreprocessing, why_no_pixels
from pipelines.preprocessor import Preprocessor
from pipelines.py_datasets import OrderedBatches
from pipelines.reading.cache import file_reader
from pipelines.reading.sources import FILES, Images, listed, split_of, texts_of
from pipelines.reading.unreadable import naming_image
from tfdml import registry
from tfdml.console.progress_bar import ProgressBar
from tfdml.evaluation.embedder import Embedder
from tfdml.methods import EmbeddingModel, TwoTowers
from tfdml.registry.arguments import Count, FilePath, Verbosity
from tfdml.registry.fields import declared
from tfdml.run.directory.model_archive import check_modules, damage_of, load_archive
from tfdml.run.directory.run_directory import RunDirectory
from tfdml.runtime.backends import is_tensorflow_dataset, uses_tensorflow
from tfdml.runtime.workers import ALONE

# Up to this number, images are prepared one after another, because creating a dataset of them would be slower.
FEW = 4
# Prefix of the digest of a Keras model.
KERAS = "keras-"


def digest_of(model: keras.Model) -> str:
    """Returns a hash of the weights of a Keras model, which corresponds to the hash of an exported model."""
    digest = hashlib.sha256()
    for weight in model.weights:
        value = np.asarray(weight)
        digest.update(f"{weight.path} {value.shape} {value.dtype}\n".encode())
        digest.update(np.ascontiguousarray(value).tobytes())
    return KERAS + digest.hexdigest()


class ImageEmbedder:
    """A trained model together with its preprocessing, which embeds image files, pixels or datasets.

    `tfdml.load` creates it from a run directory or a `.keras` file. Its attribute `model` is the Keras model.

    Args:
        model: A `tfdml.methods` model.
        preprocessing: A `tfdml.Preprocessing` or `None`. If `None`, `model.preprocessing`. Defaults to `None`.
        source: The file of the model, which errors mention. Defaults to `""`.

    Raises:
        ValueError: If `preprocessing` is `None` and the model has none.

    Example:

    ```python
    model = tfdml.Single(tfdml.backbones.Small(width=8, stages=2), embedding_size=16)
    model.preprocessing = tfdml.Preprocessing.of(model, image_size=32)
    embedder = tfdml.ImageEmbedder(model)
    embedder.embed(np.zeros((2, 48, 48, 3), "uint8")).shape  # (2, 16)
    ```
    """

    # The folder of an exported model, which this embedder does not have; see `serving.embedders.AnyEmbedder`.
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
                "tfdml.Preprocessing.of(model) if it has a tfdml backbone, otherwise "
                "tfdml.Preprocessing(image_size=..., mean=..., std=...). Or pass it to "
                "tfdml.load(file, preprocessing=...)."
            )
        self._prepare, self._lock = Preprocessor.of(self.preprocessing), threading.Lock()

    @functools.cached_property
    def dimension(self) -> int:
        """Number of dimensions of the embedding."""
        # The value is cached, because computing it is as slow as embedding an image.
        return self.model(keras.KerasTensor((None, *self.preprocessing.image_shape))).shape[-1]

    @property
    def metric(self) -> str:
        """How to compare embeddings, `"cosine"` or `"euclidean"`."""
        return "cosine" if self.model.normalize else "euclidean"

    @property
    def digest(self) -> str:
        """A hash of the weights."""
        return digest_of(self.model)

    @property
    def has_texts(self) -> bool:
        """Whether the model embeds texts as well."""
        return isinstance(self.model, TwoTowers)

    def embed_readable(self, images: Images) -> tuple[np.ndarray, np.ndarray]:
        """Returns embeddings of images and whether each image could be read, without an error if one could not.

        Args:
            images: A few images in a form that `embed` accepts.

        Returns:
            `[N, D]` float32 embeddings, with zeros for unreadable images, and `[N]` booleans.
        """
        prepared = [self._prepared(image) for image in listed(images)]
        readable = np.array([each is not None for each in prepared], bool)
        vectors = np.zeros((len(prepared), self.dimension), np.float32)
        if readable.any():
            # The lock is needed because Keras creates its prediction function at the first call.
            batch = np.stack([image for image in prepared if image is not None])
            with self._lock:
                vectors[readable] = self._embedder(0).of_batch(batch)
        return vectors, readable

    def embed_texts(self, texts: Sequence[str]) -> np.ndarray:
        """Computes the embeddings `[N, D]` of texts in the space of the images.

        Args:
            texts: Sequence of N strings.

        Raises:
            ValueError: If the model has no text tower.
        """
        if not self.has_texts:
            raise ValueError(
                f"{self.source or self.model.name} cannot embed texts, because it is a {type(self.model).__name__} "
                "without a text tower. Expected a tfdml.TwoTowers model."
            )
        return self.model.embed_texts(texts)

    def _prepared(self, image):
        """Returns an image as the network accepts it, or None if it cannot be read."""
        try:
            return self.prepare([image])[0]
        except ValueError:
            return None

    @declared
    def embed(self, images: Images, batch_size: Count = 128, verbose: Verbosity = 0) -> np.ndarray:
        """Computes the embeddings of images with the same preprocessing as in evaluation.

        Args:
            images: one of

                - the path of an image file (`str` or `Path`), or a list of paths;
                - the contents of an image file (`bytes`), or a list of them;
                - an array `[H, W, 3]` or `[N, H, W, 3]` of RGB pixels from 0 to 255, of any dtype, or a list of
                  arrays of any size;
                - a `tf.data.Dataset` of paths, contents or such pixels, batched or not. If elements are tuples, only
                  the first entry is used;
                - stored features `[N, D]`, if the model was trained on such features.

            batch_size: Integer. Number of images that the network processes at once. Defaults to `128`.
            verbose: Whether to show a progress bar, as in `keras.Model.predict`: `0`, `1` or `"auto"`. Defaults to
                `0`.

        Returns:
            `[N, D]` float32 embeddings. A single image has `N = 1`.

        Raises:
            ValueError: If an image cannot be read, or the images have none of these forms.

        Example: `tfdml.load("runs/quickstart").embed(["car.jpg", "other_car.jpg"])`.
        """
        if isinstance(self.preprocessing, VectorPreprocessing):
            return self._embed_vectors(np.asarray(images, np.float32), batch_size, verbose)
        if is_tensorflow_dataset(images):
            if isinstance(images.element_spec, tuple):
                images = images.map(lambda first, *_: first)
            if not uses_tensorflow():
                images = _rows_of(images)
            elif not (_is_single(images.element_spec) and images.element_spec.dtype == tf.string):
                return self._embed_dataset(images, batch_size, verbose)
            else:
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
        """Preprocesses images for the Keras model, so that `model(prepare(images))` are their embeddings.

        Args:
            images: Paths, contents of image files, or arrays of pixels, in a form that `embed` accepts.

        Returns:
            `[N, H, W, 3]` float32.

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
                    return np.asarray(next(iter(evaluation_batches(split, self._prepare, batch_size=len(split)))))
            # Every error in this block is about an image.
            with naming_image(split, blames=lambda error: True):
                read = file_reader(split)
                return np.stack([np.asarray(self._prepare(read(row), seed)) for row in range(len(split))])
        _warn_unless_pixels(images)
        return np.stack([np.asarray(self._prepare.from_pixels(tf.cast(image, tf.float32), seed)) for image in images])

    def embed_split(self, split: Split, batch_size: int = 128, verbose: Verbosity = "auto") -> np.ndarray:
        """Computes the embeddings of the images of a dataset split, cropped to their boxes if it has any.

        Args:
            split: A `pipelines.datasets.Split`, such as `pipelines.datasets.load("toycars").test`.
            batch_size: Integer. Number of images that the network processes at once. Defaults to `128`.
            verbose: Whether to show a progress bar: `0`, `1` or `"auto"`. Defaults to `"auto"`.

        Returns:
            `[N, D]` float32 embeddings.
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
            raise ValueError(
                f"The model expects stored features of shape [N, {dims}] instead of images. Received: "
                f"shape={vectors.shape}."
            )
        if not len(vectors):
            return self._nothing()
        if not uses_tensorflow():
            return self._run(OrderedBatches.of(vectors, batch_size), len(vectors), verbose)
        batches = tf.data.Dataset.from_tensor_slices(vectors).batch(batch_size)
        return self._run(batches, len(vectors), verbose)

    def _embed_arrays(self, arrays, batch_size, verbose):
        count = len(arrays)
        _warn_unless_pixels(arrays)
        if not uses_tensorflow():
            batches = OrderedBatches.of(arrays, min(batch_size, count), self._prepare.from_pixels)
            return self._run(batches, count, verbose)
        padding = -count % min(batch_size, count)

        def pixels():
            yield from (np.asarray(array, np.float32) for array in itertools.chain(arrays, [arrays[-1]] * padding))

        dataset = tf.data.Dataset.from_generator(pixels, output_signature=tf.TensorSpec([None, None, 3]))
        dataset = dataset.apply(tf.data.experimental.assert_cardinality(count + padding))
        return self._run(self._batches(dataset, min(batch_size, count)), count, verbose)

    def _embed_dataset(self, dataset, batch_size, verbose):
        shape = dataset.element_spec.shape if _is_single(dataset.element_spec) else tf.TensorShape(None)
        if shape.rank not in (3, 4) or shape[-1] not in (3, None):
            raise ValueError(
                "The elements of the dataset must be paths, or pixels [height, width, 3] or [batch, height, width, 3]. "
                f"Received: {dataset.element_spec}."
            )
        if dataset.cardinality() == tf.data.INFINITE_CARDINALITY:
            raise ValueError("The dataset must be finite, but it repeats forever. Use dataset.take(...).")
        for first in dataset.take(1):
            _warn_unless_pixels([first if shape.rank == 3 else first[0]])
            dataset = dataset.unbatch() if shape.rank == 4 else dataset
            # Keras' `predict` would warn at the end of a dataset with unknown length.
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
        # These images belong to this process alone, so other workers do not take part.
        return Embedder(self.model, verbose=verbose, workers=ALONE)

    def _nothing(self):
        return np.zeros((0, self.dimension), np.float32)


def _is_single(spec):
    """Whether the elements of a `tf.data.Dataset` have a single shape and type."""
    return isinstance(spec, tf.TensorSpec | tf.RaggedTensorSpec)


def _rows_of(dataset):
    """Returns the images of a `tf.data.Dataset`, batched or not, as a list of arrays, paths or contents of files."""
    spec = dataset.element_spec
    is_text = spec.dtype.name == "string"
    is_batched = spec.shape.rank == (1 if is_text else 4)
    rows = [row for each in dataset for row in (each.numpy() if is_batched else [each.numpy()])]
    return [row if b"\0" in row else os.fsdecode(row) for row in rows] if is_text else rows


def _warn_unless_pixels(arrays):
    """Warns about the first array that cannot be pixels from 0 to 255."""
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
    """Loads a trained model with its preprocessing, ready to embed images.

    Use it with the directory of a training run, or with a `.keras` file that you saved or received. The file includes
    the preprocessing, so no other file is needed. tfdml does not load files that could run code; see `trust`.

    Args:
        run_or_file: A run directory, or a `.keras` file with a `tfdml.methods` model.
        model: Which model of a run directory to load: the `"best"` one of all evaluations during training, or the
            `"final"` one. Defaults to `"best"`.
        preprocessing: A `tfdml.Preprocessing` for a model that was saved without one, or `None`. If `None`, the
            model's own. Defaults to `None`.
        trust: Boolean. Whether to import the modules that the run lists in its `--import_modules`, which can run any
            code. Modules that you have already imported need no trust. Defaults to `False`.

    Returns:
        An `ImageEmbedder`. Its `model` is the Keras model.

    Raises:
        FileNotFoundError: If `run_or_file` does not exist, or the run has no such model yet.
        ValueError: If the file is damaged, has no `tfdml.methods` model or no preprocessing, or needs a module that is
            neither imported nor trusted.

    Example:

    ```python
    model = tfdml.Single(tfdml.backbones.Small(width=8, stages=2), embedding_size=16)
    model.preprocessing = tfdml.Preprocessing.of(model, image_size=32)
    model.build((None, 32, 32, 3))
    model.save("model.keras")
    tfdml.load("model.keras").embed(np.zeros((2, 48, 48, 3), "uint8")).shape  # (2, 16)
    ```
    """
    path = Path(run_or_file)
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist. Expected a run directory or a .keras file.")
    if path.suffix == ".h5" and path.is_file():
        raise ValueError(
            f"{path} is not a .keras file, and a file with weights does not include the model. Expected a run "
            "directory or a .keras file. Create the model as it was trained, build it, and call "
            "model.load_weights(file). Then model.save('model.keras') saves both."
        )
    folder = path if path.is_dir() else path.parent
    # The flags name modules that register components of the model.
    settings = RunDirectory(folder).settings() if path.is_dir() or (folder / "flags.txt").is_file() else None
    modules = settings.run.import_modules if settings else ()
    check_modules(modules, folder, trusted=modules if trust else ())
    registry.import_modules(modules)
    file = RunDirectory(path).model_file(model) if path.is_dir() else path
    # `model_file` has already checked a run's file. The check reads the whole file.
    if not path.is_dir() and (damage := damage_of(file)):
        raise ValueError(f"{file} is not a Keras model or is damaged: {damage}.")
    loaded = load_archive(file)
    if not isinstance(loaded, EmbeddingModel):
        raise ValueError(
            f"{file} must contain a tfdml.methods model. Received: a {type(loaded).__name__}. Load other models with "
            "keras.models.load_model, and search with tfdml.Index(model). For images of any size, train the network "
            "in a tfdml model: tfdml.Single(network, embedding_size=...)."
        )
    loaded.preprocessing = preprocessing or loaded.preprocessing
    return ImageEmbedder(loaded, source=file)


def is_loadable(path: FilePath) -> bool:
    """Whether a path looks like something that `load` accepts: a file, or the folder of a run."""
    return Path(path).is_file() or RunDirectory(path).has_flags
