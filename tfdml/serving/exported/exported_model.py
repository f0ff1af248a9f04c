"""SavedModels that take image files, as embedders."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from pipelines.checks import as_decodable, why_costly
from pipelines.dataset import Split
from pipelines.reading.cache import file_reader
from pipelines.reading.unreadable import READING_ERRORS, about_position, naming_image
from tfdml.console.progress_bar import ProgressBar
from tfdml.registry.arguments import FilePath
from tfdml.serving.exported.model_card import read_card
from tfdml.serving.exported.saved_model_files import saved_model_folder


class ExportedModel:
    """A SavedModel from `image_bytes`, strings `[B]`, to `embedding`, `[B, D]`, as `python -m tfdml.export` writes it.

    It may be used by several threads at once.

    Args:
        path: its folder, or the one of its only version.
    """

    def __init__(self, path: FilePath):
        self.path = path = saved_model_folder(path)
        try:
            # Functions of a model live as long as it does.
            self._model = tf.saved_model.load(str(path))
        except (OSError, ValueError, tf.errors.OpError) as error:
            raise ValueError(f"Cannot read the SavedModel {path}; export it again: {error}") from error
        self._serve = self.signatures.get("serving_default")
        if not self._serve or not _takes_files(self._serve):
            raise ValueError(
                f"The SavedModel {path} has no signature serving_default from image_bytes, strings, to embedding, as "
                "`python -m tfdml.export` writes it."
            )

    @property
    def signatures(self) -> Mapping[str, Callable[..., Any]]:
        """Name to function, see `tfdml.serving.export`."""
        return self._model.signatures

    @property
    def dimension(self) -> int:
        """Number of dimensions of the embedding."""
        return self._serve.structured_outputs["embedding"].shape[-1]

    @property
    def metric(self) -> str:
        """How embeddings are compared, `cosine` or `euclidean`, as the model's card says; `cosine` without a card."""
        return read_card(self.path).get("embedding", {}).get("metric", "cosine")

    def embed_contents(self, contents: Sequence[bytes]) -> tuple[np.ndarray, np.ndarray]:
        """Returns embeddings `[B, D]` of the contents of image files, float32, and whether each could be read, `[B]`.

        An embedding of an image that cannot be read means nothing. One that takes too long to decode counts as such.

        Args:
            contents: list of bytes.
        """
        return self._tried([b"" if why_costly(each) else as_decodable(each) for each in contents])

    def read(self, contents: bytes) -> Any:
        """Returns what `embed_read` takes of an image file: its pixels, or None if it cannot be read."""
        if why_costly(contents):
            return None
        try:
            return self.signatures["read_image"](image_bytes=tf.constant(as_decodable(contents)))["image"].numpy()
        except READING_ERRORS:
            return None

    def embed_read(self, images: Sequence[Any]) -> tuple[np.ndarray, np.ndarray]:
        """Returns what `embed_contents` does, of a list of what `read` returned, or of contents as they are."""
        embeddings, valid = np.zeros((len(images), self.dimension), np.float32), np.ones(len(images), bool)
        files = np.array([isinstance(image, bytes) for image in images])
        read, unread = np.flatnonzero(~files), np.flatnonzero(files)
        if len(read):
            pixels = tf.constant(np.stack([images[place] for place in read]))
            embeddings[read] = self.signatures["embed_images"](images=pixels)["embedding"].numpy()
        if len(unread):
            embeddings[unread], valid[unread] = self.embed_contents([images[place] for place in unread])
        return embeddings, valid

    def _tried(self, contents):
        try:
            return self._embedded(tf.constant(contents, tf.string))
        except READING_ERRORS:
            if len(contents) == 1:
                return np.zeros((1, self.dimension), np.float32), np.zeros(1, bool)
        # The model does not say which others cannot be read.
        found = [self._tried([each]) for each in contents]
        embeddings, valid = zip(*found, strict=True)
        return np.concatenate(embeddings), np.concatenate(valid)

    def embed_split(self, split: Split, batch_size: int = 128) -> np.ndarray:
        """Returns the embeddings `[N, D]` of the images of a `pipelines.datasets.Split`."""
        if split.boxes is not None:
            raise ValueError(f"The SavedModel {self.path} takes whole images, but the dataset crops them to boxes.")
        files = tf.data.Dataset.range(len(split)).map(file_reader(split), num_parallel_calls=tf.data.AUTOTUNE)
        embeddings, bar = [], ProgressBar(len(split), "image")
        with naming_image(split, lambda error: isinstance(error, READING_ERRORS)):
            for batch in files.batch(batch_size).prefetch(2):
                found, valid = self._embedded(batch)
                if not valid.all():
                    raise ValueError(about_position(split) or _changed(split))
                embeddings.append(found)
                bar.add(len(found))
        return np.concatenate(embeddings)

    def _embedded(self, contents):
        found = self._serve(image_bytes=contents)
        embeddings = found["embedding"].numpy().astype(np.float32, copy=False)
        return embeddings, found["valid"].numpy() if "valid" in found else np.ones(len(embeddings), bool)


def _takes_files(function):
    inputs = function.structured_input_signature[1]
    strings = [name for name, spec in inputs.items() if spec.dtype == tf.string]
    return list(inputs) == strings == ["image_bytes"] and "embedding" in function.structured_outputs


def _changed(split):
    return f"One of {len(split)} images could not be read a moment ago, but now all can."
