"""Embedders turn images into embeddings: a model by its path, a Keras model, or a function."""

import functools
import os
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import keras
import numpy as np

from pipelines.preprocessing import Preprocessing, declared_by
from pipelines.preprocessor import Preprocessor
from pipelines.reading.sources import are_files
from tfdml.methods import EmbeddingModel, TwoTowers
from tfdml.registry.arguments import FilePath
from tfdml.run.loading import KERAS, ImageEmbedder, digest_of, is_loadable, load
from tfdml.runtime.backends import uses_tensorflow
from tfdml.serving.exported_model import ExportedModel
from tfdml.serving.presets import from_preset, is_preset
from tfdml.serving.saved_model import export


class AnyEmbedder(Protocol):
    """Protocol of embedders: an `ExportedModel`, the `ImageEmbedder` of a run's model, or an `ArrayEmbedder`.

    Attributes:
        digest: String. Hash of the model, by which an index recognizes it.
        metric: How embeddings are compared, `"cosine"` or `"euclidean"`.
        dimension: Integer or `None`. Size of an embedding. If `None`, it is not known before images are embedded.
        path: Folder of the SavedModel with its card, or `None` if the model is not exported.
        has_texts: Boolean. Whether `embed_texts` works.
    """

    digest: str
    metric: str
    dimension: int | None
    path: FilePath | None
    has_texts: bool

    def embed_readable(self, images: Any) -> tuple[np.ndarray, np.ndarray]:
        """Embeds images and reports which of them could be read.

        Args:
            images: List of the contents of image files (bytes), or other images that the embedder accepts.

        Returns:
            A tuple of the embeddings, float32 `[N, D]`, and a mask `[N]` that is True for readable images. Ignore the
            embeddings of unreadable images.
        """

    def embed_texts(self, texts: Sequence[str]) -> np.ndarray:
        """Returns the embeddings `[N, D]` of N texts, in the space of the images."""


def embedder_of(model):
    """Returns the `ImageEmbedder` of a `.keras` file, a run or a preset, or the `ExportedModel` of a SavedModel."""
    if is_preset(model):
        return from_preset(model)
    if is_loadable(model):
        return load(model)
    try:
        return ExportedModel(model)
    except ValueError as error:
        raise ValueError(
            f"--model={error} You can also pass a .keras file or a run directory without an export."
        ) from None


def embedder_for_index(model, folder=None):
    """Returns the `ExportedModel` or the `ArrayEmbedder` of a model for an index, or `None` for `None`.

    `model` is an exported model or its folder, a run directory or a `.keras` file, the result of `tfdml.load`, a Keras
    model, or a function from images to embeddings. A model from a run is exported to `folder` first. Without a folder,
    such a model is an error.
    """
    if model is None or isinstance(model, ExportedModel | ArrayEmbedder):
        return model
    if isinstance(model, str | os.PathLike):
        if not is_loadable(model):
            return ExportedModel(model)
        model = load(model)
    if isinstance(model, ImageEmbedder) and not uses_tensorflow():
        # Only TensorFlow can copy a model into an index.
        return ArrayEmbedder(model.model, model.preprocessing)
    if isinstance(model, ImageEmbedder):
        if folder is None:
            raise ValueError(
                "An index that was made with a run, a .keras file or what tfdml.load returns contains a copy of its "
                "model. Open it without a model."
            )
        export(model.model, Preprocessor.of(model.preprocessing), folder, tolerant=True)
        return ExportedModel(folder)
    if isinstance(model, keras.Model) or callable(model):
        return ArrayEmbedder(model)
    raise ValueError(
        "model must be an exported model, what tfdml.load returns, a Keras model or a function from images to "
        f"embeddings. Received: {type(model).__name__}."
    )


# These stand in for the hash of a SavedModel if the index has no copy of its model.
FUNCTION, VECTORS = "function", "vectors"


def is_of_arrays(digest: str) -> bool:
    """Returns whether the hash is one of a model that an index has no copy of."""
    return digest in (FUNCTION, VECTORS) or digest.startswith(KERAS)


class ArrayEmbedder:
    """Embedder that passes images to a Keras model or a function as they are.

    If a Keras model specifies how its images are prepared, image files are accepted as well and prepared that way.

    Args:
        embed: Keras model, or function from an array `[N, ...]` to embeddings `[N, D]`.
        preprocessing: `tfdml.Preprocessing` of image files, or `None`. If `None`, what the model specifies. Defaults to
            `None`.
    """

    metric, path = "cosine", None

    def __init__(self, embed: Callable[..., Any], preprocessing: Preprocessing | None = None):
        self._embed, self._preprocessing = embed, preprocessing

    @property
    def dimension(self) -> int | None:
        """Size of an embedding if the model can read files. If `None`, it is not known yet."""
        return self._of_files.dimension if isinstance(self._embed, keras.Model) else None

    @property
    def digest(self) -> str:
        """Identifies the model, as a SavedModel's hash does. For a Keras model, it is a hash of the weights."""
        return digest_of(self._embed) if isinstance(self._embed, keras.Model) else FUNCTION

    @property
    def has_texts(self) -> bool:
        """Whether the model embeds texts as well."""
        return isinstance(self._embed, TwoTowers)

    def embed_texts(self, texts: Sequence[str]) -> np.ndarray:
        """Returns the embeddings `[N, D]` of N texts by a `tfdml.TwoTowers` model."""
        return checked_vectors(self._embed.embed_texts(texts), len(texts))

    def reads_files(self, images: Any) -> bool:
        """Returns whether the images are files to read here. A function receives paths unchanged."""
        return isinstance(self._embed, keras.Model) and are_files(images)

    def embed_readable(self, images: Any) -> tuple[np.ndarray, np.ndarray]:
        """Returns embeddings, float32 `[N, D]`, and whether each image could be read, `[N]`; see `AnyEmbedder`."""
        if self.reads_files(images):
            return self._of_files.embed_readable(images)
        if isinstance(images, str | os.PathLike):
            raise ValueError(
                f"A function receives the images as they are. Expected N images. Received: images={str(images)!r}. "
                "Pass a list of paths if the function reads files, or other images that it accepts."
            )
        count = len(images)
        if isinstance(self._embed, keras.Model):
            if not count:
                raise ValueError("images is empty. Expected at least one image.")
            vectors = self._embed.predict(np.asarray(images), verbose=0)
        else:
            vectors = self._embed(images)
        return checked_vectors(vectors, count), np.ones(count, bool)

    @functools.cached_property
    def _of_files(self):
        """The `ImageEmbedder` of a Keras model. Raises a ValueError if nothing specifies its preprocessing."""
        model, declared = self._embed, declared_by(self._embed)
        of_tfdml = isinstance(model, EmbeddingModel)
        preprocessing = self._preprocessing or (model.preprocessing if of_tfdml else None)
        if preprocessing is None and {"mean", "std", "image_size"} <= declared.keys() and "vector_dims" not in declared:
            preprocessing = Preprocessing.of(model)
        if isinstance(preprocessing, Preprocessing):
            return ImageEmbedder(model, preprocessing)
        how = (
            "Set model.preprocessing = tfdml.Preprocessing(image_size=..., mean=..., std=...)"
            if of_tfdml
            else "Set the attributes mean, std and image_size of the model, for pixels from 0 to 255"
        )
        raise ValueError(
            f"The model {model.name} does not specify how image files are prepared for it. Expected images as arrays "
            f"that the model accepts. {how}, or prepare the images yourself and pass their names as paths=..."
        )


def reads_files(embedder: AnyEmbedder, images: Any) -> bool:
    """Returns whether the user's images are listed and read first, or passed to the embedder as they are."""
    return not isinstance(embedder, ArrayEmbedder) or embedder.reads_files(images)


def checked_vectors(vectors: Any, count: int | None = None) -> np.ndarray:
    """Returns finite float32 vectors `[N, D]`. Raises a ValueError for anything else, or if N is not `count`."""
    found = np.ascontiguousarray(keras.ops.convert_to_numpy(vectors), np.float32)
    expected = f"[{'count' if count is None else count}, dimensions]"
    if found.ndim != 2 or not found.shape[1] or count not in (None, len(found)):
        raise ValueError(f"Embeddings must have the shape {expected}. Received: shape {list(found.shape)}.")
    wrong = np.flatnonzero(~np.isfinite(found).all(axis=1))
    if len(wrong):
        raise ValueError(f"The embedding of image {wrong[0]} is NaN or infinite.")
    return found
