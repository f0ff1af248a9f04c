"""SavedModels that take image files, as embedders of a dataset's images."""

import keras
import numpy as np
import tensorflow as tf

from pipelines.reading.file_reader import file_reader
from pipelines.reading.unreadable import READING_ERRORS, unreadable_error


class ExportedModel:
    """A SavedModel from `image_bytes`, strings `[B]`, to `embedding`, `[B, D]`, as `python -m tfdml.export` writes it.

    Args:
        path: its folder.
    """

    def __init__(self, path):
        self.path = path
        try:
            # Functions of a model live as long as it does.
            self._model = tf.saved_model.load(str(path))
        except (OSError, ValueError, tf.errors.OpError) as error:
            raise ValueError(f"Cannot read the SavedModel {path}; export it again: {error}") from error
        self._serve = self._model.signatures.get("serving_default")
        if not self._serve or not _takes_files(self._serve):
            raise ValueError(
                f"The SavedModel {path} has no signature serving_default from image_bytes, strings, to embedding, as "
                "`python -m tfdml.export` writes it."
            )

    def embed_split(self, split, batch_size=128):
        """Returns the embeddings `[N, D]` of the images of a `pipelines.datasets.Split`."""
        if split.boxes is not None:
            raise ValueError(f"The SavedModel {self.path} takes whole images, but the dataset crops them to boxes.")
        files = tf.data.Dataset.range(len(split)).map(file_reader(split), num_parallel_calls=tf.data.AUTOTUNE)
        embeddings, bar = [], keras.utils.Progbar(-(-len(split) // batch_size))
        try:
            for batch in files.batch(batch_size).prefetch(2):
                embeddings.append(self._serve(image_bytes=batch)["embedding"].numpy())
                bar.add(1)
        except READING_ERRORS as error:
            told = unreadable_error(split)
            if told is None:
                raise
            raise told from error
        return np.concatenate(embeddings).astype(np.float32, copy=False)


def _takes_files(function):
    inputs = function.structured_input_signature[1]
    strings = [name for name, spec in inputs.items() if spec.dtype == tf.string]
    return list(inputs) == strings == ["image_bytes"] and "embedding" in function.structured_outputs
