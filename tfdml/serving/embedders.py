"""Embedders of images: a model by its path, a Keras model, or a function, and images in any form."""

import hashlib
import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np

from pipelines.preprocessing import Preprocessing, declared_by, why_no_pixels
from pipelines.reading.sources import are_files, split_of
from pipelines.reading.unreadable import why_unreadable
from tfdml.methods import EmbeddingModel
from tfdml.run.loading import ImageEmbedder, is_loadable, load
from tfdml.serving.exported_model import ExportedModel
from tfdml.serving.image_list import ImageList
from tfdml.serving.presets import from_preset, is_preset


def embedder_of(model):
    """Returns the `ImageEmbedder` of a `.keras` file, a run or a preset, or the `ExportedModel` of a SavedModel.

    Args:
        model: its path or address, as `--model` gives it.
    """
    if is_preset(model):
        return from_preset(model)
    if is_loadable(model):
        return load(model)
    try:
        return ExportedModel(model)
    except ValueError as error:
        raise ValueError(f"--model={error} A .keras file or the folder of a run needs no export.") from None


# In the place of the hash of a SavedModel, of what has no files with the index.
KERAS, FUNCTION, VECTORS = "keras-", "function", "vectors"


def is_of_arrays(digest: str) -> bool:
    """Whether the hash of a model is one of a model that an index has no copy of."""
    return digest in (FUNCTION, VECTORS) or digest.startswith(KERAS)


class ArrayEmbedder:
    """Embeds images as a model or a function takes them.

    A Keras model that says how its images are prepared also takes image files, which are prepared like that.

    Args:
        embed: Keras model, or function, from an array `[N, ...]` to embeddings `[N, D]`.
    """

    def __init__(self, embed: Callable[..., Any]):
        self._embed = embed

    def __call__(self, images: Any) -> np.ndarray:
        """Returns the embeddings `[N, D]` of images, float32."""
        if self.reads_files(images):
            return checked_vectors(self._file_embedder().embed(images))
        if isinstance(images, str | os.PathLike):
            raise ValueError(
                f"A function gets the images as they are. Expected N images. Received: images={str(images)!r}. Pass a "
                "list of paths if the function reads files, or what else it takes."
            )
        count = len(images)
        if isinstance(self._embed, keras.Model):
            if not count:
                raise ValueError("Expected images, received none.")
            found = self._embed.predict(np.asarray(images), verbose=0)
        else:
            found = self._embed(images)
        return checked_vectors(found, count)

    def reads_files(self, images: Any) -> bool:
        """Whether images are files that are read here: a function gets paths as they are."""
        return isinstance(self._embed, keras.Model) and are_files(images)

    def embed_files(self, files: ImageList) -> tuple[list[int], np.ndarray, dict[str, str]]:
        """Returns the rows of the images that can be read, their embeddings, and path to reason of the others."""
        embedder, rows = self._file_embedder(), list(range(len(files)))
        split = split_of(files.paths if files.contents is None else list(files.contents))
        try:
            return rows, checked_vectors(embedder.embed_split(split, verbose=0)), {}
        except ValueError:
            reasons = [why_unreadable(split, row) for row in rows]
            bad = {files.paths[row]: reason for row, reason in enumerate(reasons) if reason}
            if not bad:
                raise
        rows = [row for row in rows if not reasons[row]]
        found = embedder.embed_split(split.where(rows), verbose=0) if rows else np.zeros((0, 1), np.float32)
        return rows, checked_vectors(found), bad

    def _file_embedder(self):
        """Returns the `ImageEmbedder` of a Keras model; a ValueError if nothing says how its images are prepared."""
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

    @property
    def digest(self) -> str:
        """Stands for the hash of a SavedModel: of a Keras model a hash of its weights."""
        if not isinstance(self._embed, keras.Model):
            return FUNCTION
        found = hashlib.sha256()
        for weight in self._embed.weights:
            value = np.asarray(weight)
            found.update(f"{weight.path} {value.shape} {value.dtype}\n".encode())
            found.update(np.ascontiguousarray(value).tobytes())
        return KERAS + found.hexdigest()

    def check(self, digest: str, index: Any) -> None:
        """Raises a ValueError if an index was made with another model.

        Args:
            digest: the hash in the index.
            index: its folder, for the message.
        """
        # Of ready vectors nobody knows the model.
        if digest not in (VECTORS, self.digest):
            raise ValueError(f"The index {index} was made with another model; their embeddings cannot be compared.")


def checked_vectors(vectors: Any, count: int | None = None) -> np.ndarray:
    """Returns vectors as float32 `[N, D]`, finite; a ValueError if they are none.

    Args:
        vectors: array.
        count: N; None: any.
    """
    found = np.ascontiguousarray(keras.ops.convert_to_numpy(vectors), np.float32)
    expected = f"[{'count' if count is None else count}, dimensions]"
    if found.ndim != 2 or not found.shape[1] or count not in (None, len(found)):
        raise ValueError(f"Expected embeddings of the shape {expected}, received {list(found.shape)}.")
    wrong = np.flatnonzero(~np.isfinite(found).all(axis=1))
    if len(wrong):
        raise ValueError(f"The embedding of image {wrong[0]} is NaN or infinite.")
    return found


def contents_of(image, place):
    """Returns the contents of a file for an image: those of its path, or of a PNG with its pixels."""
    if isinstance(image, bytes | bytearray):
        return bytes(image)
    if isinstance(image, str | Path):
        try:
            return ImageList([os.fspath(image)], [None]).read(0)
        except OSError as error:
            raise ValueError(f"{image} cannot be read: {error.strerror or error}.") from None
    pixels = np.asarray(image)
    reason = why_no_pixels(pixels, place)
    if reason:
        raise ValueError(reason)
    if pixels.dtype != np.uint8:
        pixels = np.clip(np.round(pixels), 0, 255).astype(np.uint8)
    from PIL import Image

    file = io.BytesIO()
    # Only for a moment: compressing takes longer than what it saves.
    Image.fromarray(pixels).save(file, "PNG", compress_level=0)
    return file.getvalue()
