"""`ArrayEmbedder`: a Keras model or a function that embeds arrays of images."""

import hashlib
from collections.abc import Callable
from typing import Any

import keras
import numpy as np

# In the place of the hash of a SavedModel, of what has no files with the index.
KERAS, FUNCTION, VECTORS = "keras-", "function", "vectors"


def is_of_arrays(digest: str) -> bool:
    """Whether the hash of a model is one of a model that an index has no copy of."""
    return digest in (FUNCTION, VECTORS) or digest.startswith(KERAS)


class ArrayEmbedder:
    """Embeds images as a model or a function takes them.

    Args:
        embed: Keras model, or function, from an array `[N, ...]` to embeddings `[N, D]`.
    """

    def __init__(self, embed: Callable[..., Any]):
        self._embed = embed

    def __call__(self, images: Any) -> np.ndarray:
        """Returns the embeddings `[N, D]` of images, float32."""
        count = len(images)
        if isinstance(self._embed, keras.Model):
            found = self._embed.predict(np.asarray(images), verbose=0)
        else:
            found = self._embed(images)
        return checked_vectors(found, count)

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
