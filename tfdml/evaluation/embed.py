"""Embeds all images of a split."""

import numpy as np
import tensorflow as tf

from tfdml.devices import is_multi_worker
from tfdml.progress_lines import ProgressLines


class Embedder:
    """Embeds batches of images with a model, showing progress.

    Create one for each model: its function is traced once.

    Args:
        model: Keras model from images to `[B, D]`.
        verbose: 1 shows a progress bar, 2 a line every few seconds, 0 nothing.
    """

    def __init__(self, model, verbose=1):
        self.model = model
        self.verbose = verbose
        self._forward = tf.function(lambda images: model(images, training=False), reduce_retracing=True)

    def __call__(self, batches, count):
        """Returns the embeddings `[count, D]` of the first `count` images in a dataset of batches; None: of all."""
        if is_multi_worker(self.model.distribute_strategy):
            # Each worker embeds all images, so that all have the same result without waiting for each other.
            embeddings = np.concatenate([self._forward(images).numpy() for images in batches])
        else:
            lines = self.verbose == 2
            callbacks = [ProgressLines()] if lines else []
            embeddings = self.model.predict(batches, verbose=0 if lines else self.verbose, callbacks=callbacks)
        if not isinstance(embeddings, np.ndarray) or embeddings.ndim != 2:
            received = embeddings.shape if isinstance(embeddings, np.ndarray) else f"{len(embeddings)} outputs"
            raise ValueError(
                f"Expected a model from images to embeddings [batch, dim]; {self.model.name} returns {received}. "
                "Pass the model to evaluate: RetrievalEvaluation(..., embedder=keras.Model(inputs, embeddings))."
            )
        return embeddings[:count]
