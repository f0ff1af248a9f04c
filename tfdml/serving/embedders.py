"""Embedders, which turn images into embeddings: a model by its path, a Keras model, or a function."""

import functools
import os
from collections.abc import Callable
from typing import Any, Protocol

import keras
import numpy as np

from pipelines.preprocessing import Preprocessing, declared_by
from pipelines.preprocessor import Preprocessor
from pipelines.reading.sources import are_files
from tfdml.methods import EmbeddingModel
from tfdml.registry.arguments import FilePath
from tfdml.run.loading import KERAS, ImageEmbedder, digest_of, is_loadable, load
from tfdml.serving.exported_model import ExportedModel
from tfdml.serving.presets import from_preset, is_preset
from tfdml.serving.saved_model import export


class AnyEmbedder(Protocol):
    """What embeds images: an `ExportedModel`, the `ImageEmbedder` of a run's model, or an `ArrayEmbedder`.

    Attributes:
        digest: hash of the model, by which an index knows it.
        metric: how embeddings are compared, `cosine` or `euclidean`.
        dimension: of an embedding; None: it is not known before images are embedded.
        path: the folder of the SavedModel, with its card; None: it is no exported model.
    """

    digest: str
    metric: str
    dimension: int | None
    path: FilePath | None

    def embed_readable(self, images: Any) -> tuple[np.ndarray, np.ndarray]:
        """Returns embeddings `[N, D]`, float32, and whether each image could be read, `[N]`.

        Args:
            images: a list of the contents of image files (bytes), or what else the embedder takes. The embedding of an
                image that cannot be read means nothing.
        """


def embedder_of(model):
    """Returns the `ImageEmbedder` of a `.keras` file, a run or a preset, or the `ExportedModel` of a SavedModel."""
    if is_preset(model):
        return from_preset(model)
    if is_loadable(model):
        return load(model)
    try:
        return ExportedModel(model)
    except ValueError as error:
        raise ValueError(f"--model={error} A .keras file or the folder of a run needs no export.") from None


def embedder_for_index(model, folder=None):
    """Returns the `ExportedModel` or the `ArrayEmbedder` of a model, which an index takes; `None` for `None`.

    The model is an exported model or its folder, a run or a `.keras` file or what `tfdml.load` makes of them, a Keras
    model, or a function from images to embeddings. If it is not exported yet, it is exported to `folder`; without one
    it is an error.
    """
    if model is None or isinstance(model, ExportedModel | ArrayEmbedder):
        return model
    if isinstance(model, str | os.PathLike):
        if not is_loadable(model):
            return ExportedModel(model)
        model = load(model)
    if isinstance(model, ImageEmbedder):
        if folder is None:
            raise ValueError("An index of such a model has it with it: open it without a model.")
        export(model.model, Preprocessor.of(model.preprocessing), folder, tolerant=True)
        return ExportedModel(folder)
    if isinstance(model, keras.Model) or callable(model):
        return ArrayEmbedder(model)
    raise ValueError(
        "Expected an exported model, what tfdml.load returns, a Keras model or a function from images to embeddings, "
        f"received {type(model).__name__}."
    )


# In the place of the hash of a SavedModel, of what has no files with the index.
FUNCTION, VECTORS = "function", "vectors"


def is_of_arrays(digest: str) -> bool:
    """Whether the hash of a model is one of a model that an index has no copy of."""
    return digest in (FUNCTION, VECTORS) or digest.startswith(KERAS)


class ArrayEmbedder:
    """Embeds images as a model or a function takes them.

    A Keras model that says how its images are prepared also takes image files, which are prepared like that.

    Args:
        embed: Keras model, or function, from an array `[N, ...]` to embeddings `[N, D]`.
    """

    metric, path = "cosine", None

    def __init__(self, embed: Callable[..., Any]):
        self._embed = embed

    @property
    def dimension(self) -> int | None:
        """Number of dimensions of the embedding, of a model that reads files; None: it is not known."""
        return self._of_files.dimension if isinstance(self._embed, keras.Model) else None

    @property
    def digest(self) -> str:
        """Stands for the hash of a SavedModel: of a Keras model a hash of its weights."""
        return digest_of(self._embed) if isinstance(self._embed, keras.Model) else FUNCTION

    def reads_files(self, images: Any) -> bool:
        """Whether images are files that are read here: a function gets paths as they are."""
        return isinstance(self._embed, keras.Model) and are_files(images)

    def embed_readable(self, images: Any) -> tuple[np.ndarray, np.ndarray]:
        """Returns embeddings `[N, D]`, float32, and whether each image could be read, `[N]`; see `AnyEmbedder`."""
        if self.reads_files(images):
            return self._of_files.embed_readable(images)
        if isinstance(images, str | os.PathLike):
            raise ValueError(
                f"A function gets the images as they are. Expected N images. Received: images={str(images)!r}. Pass a "
                "list of paths if the function reads files, or what else it takes."
            )
        count = len(images)
        if isinstance(self._embed, keras.Model):
            if not count:
                raise ValueError("Expected images, received none.")
            vectors = self._embed.predict(np.asarray(images), verbose=0)
        else:
            vectors = self._embed(images)
        return checked_vectors(vectors, count), np.ones(count, bool)

    @functools.cached_property
    def _of_files(self):
        """The `ImageEmbedder` of a Keras model; a ValueError if nothing says how its images are prepared."""
        model, declared = self._embed, declared_by(self._embed)
        of_tfdml = isinstance(model, EmbeddingModel)
        preprocessing = model.preprocessing if of_tfdml else None
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
            f"The model {model.name} does not say how image files are prepared for it. Expected images as arrays that "
            f"the model takes. {how}, or prepare the images yourself and add their names with paths=..."
        )


def reads_files(embedder: AnyEmbedder, images: Any) -> bool:
    """Whether images, as a user gives them, are listed and read before they are embedded, or taken as they are."""
    return not isinstance(embedder, ArrayEmbedder) or embedder.reads_files(images)


def checked_vectors(vectors: Any, count: int | None = None) -> np.ndarray:
    """Returns vectors as float32 `[N, D]`, finite; a ValueError if they are none, or if N is not the count."""
    found = np.ascontiguousarray(keras.ops.convert_to_numpy(vectors), np.float32)
    expected = f"[{'count' if count is None else count}, dimensions]"
    if found.ndim != 2 or not found.shape[1] or count not in (None, len(found)):
        raise ValueError(f"Expected embeddings of the shape {expected}, received {list(found.shape)}.")
    wrong = np.flatnonzero(~np.isfinite(found).all(axis=1))
    if len(wrong):
        raise ValueError(f"The embedding of image {wrong[0]} is NaN or infinite.")
    return found
