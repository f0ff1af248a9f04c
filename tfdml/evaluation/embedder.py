"""Embeds all images of a split."""

from typing import TypeAlias

import keras
import numpy as np
import tensorflow as tf

from tfdml.console.progress_lines import ProgressLines
from tfdml.registry.arguments import Verbosity
from tfdml.runtime.devices import is_multi_worker
from tfdml.runtime.workers import Workers

# Images of an array that the network processes at once, as in `keras.Model.predict`.
BATCH = 32
FLOATS = ("float16", "bfloat16", "float32", "float64")


# An array of images `[N, H, W, 3]`, or a dataset of batches of them.
ImageBatches: TypeAlias = np.ndarray | tf.Tensor | tf.data.Dataset


class NanWeight(ValueError):
    """Raised for a model with a weight that is NaN."""

    def __init__(self, path, model):
        super().__init__(f"The weight {path} of {model.name} is NaN, so its embeddings mean nothing.")
        self.path = path


class Embedder:
    """Embeds batches of images with a model, showing progress.

    Create one for each model: its function is traced once. Several workers share the batches, and each has all
    embeddings in the end: the same bits as one process, because each image is in the same batch.

    Args:
        model: Keras model from images to `[B, D]`.
        verbose: 1 shows a progress bar, 2 a line every ten seconds, 0 nothing.
        workers: the `Workers` that share each pass, all of which must call this object; None: those of the model's
            distribution strategy.
        of: what the images are, for the lines of progress, such as `test images`.
    """

    def __init__(
        self, model: keras.Model, verbose: Verbosity = 1, workers: Workers | None = None, *, of: str = "images"
    ):
        self.model = model
        self.verbose, self.of = verbose, of
        self.workers = workers or Workers.of(model.distribute_strategy)
        self._forward = tf.function(lambda images: model(images, training=False), reduce_retracing=True)

    def __call__(self, images: ImageBatches, count: int | None) -> np.ndarray:
        """Returns the embeddings `[count, D]` of images, an array or a dataset of batches.

        Of several workers, a dataset has this worker's share, such as `evaluation_batches(share=workers.share)`; shares
        are joined in the order of the workers. What a dataset has beyond `count` is left out; None: all.
        """
        if count is not None:
            check_count(images, count)
        self._check_weights()
        lines = self.verbose == 2
        of = f"the {self.of}" if count is None else f"{count:,} {self.of}"
        callbacks, bar = [ProgressLines(of=of)] if lines else [], 0 if lines else self.verbose
        if is_multi_worker(self.model.distribute_strategy):
            # The share too, so that an error in it is an error on all workers, and none waits for it.
            (embeddings,) = self.workers.gather(lambda: self._embeddings(self._share(images), callbacks, bar))
        else:
            embeddings = self._checked(self.model.predict(images, verbose=bar, callbacks=callbacks))
        return embeddings[:count]

    def of_batch(self, images: np.ndarray) -> np.ndarray:
        """Returns the embeddings `[B, D]` of one batch, without a dataset: for few images that takes less time."""
        self._check_weights()
        return self._checked(self.model.predict_on_batch(images))

    def _check_weights(self):
        # Embeddings do not always show NaN: on CPUs a convolution that is fused with its ReLU makes 0 of it.
        weights = [weight for weight in self.model.weights if weight.dtype in FLOATS]
        found = [tf.reduce_any(tf.math.is_nan(tf.convert_to_tensor(weight.value))) for weight in weights]
        # Asked once: a device has to end its work for each answer.
        broken = np.flatnonzero(tf.stack(found)) if found else ()
        if len(broken):
            raise NanWeight(weights[broken[0]].path, self.model)

    def _share(self, images):
        """Returns this worker's share of the batches of an array; of a dataset, all of it."""
        if isinstance(images, tf.data.Dataset):
            return images
        batches = self.workers.share(-(-len(images) // BATCH))
        share = images[batches.start * BATCH : batches.stop * BATCH]
        return tf.data.Dataset.from_tensor_slices(share).batch(BATCH)

    def _embeddings(self, batches, callbacks, bar):
        """Returns what `predict` would, which shares each batch with other workers; `()` without a batch."""
        steps = int(batches.cardinality())
        listed = keras.callbacks.CallbackList(callbacks, add_progbar=bool(bar), verbose=bar, epochs=1, steps=steps)
        found = []
        listed.on_predict_begin()
        for step, images in enumerate(batches):
            found.append(self._checked(self._forward(images).numpy()))
            listed.on_predict_batch_end(step)
        listed.on_predict_end()
        return (np.concatenate(found),) if found else ()

    def _checked(self, embeddings):
        if not isinstance(embeddings, np.ndarray) or embeddings.ndim != 2:
            received = embeddings.shape if isinstance(embeddings, np.ndarray) else f"{len(embeddings)} outputs"
            raise ValueError(
                f"Expected a model from images to embeddings [batch, dim]; {self.model.name} returns {received}. "
                "Pass the model to evaluate: RetrievalEvaluation(..., embedder=keras.Model(inputs, embeddings))."
            )
        # NumPy knows no bfloat16.
        return embeddings if embeddings.dtype.kind in "fiu" else embeddings.astype(np.float32)


def check_count(images, labels):
    """Raises a ValueError where images are an array with another number of images than there are labels."""
    is_array = isinstance(images, np.ndarray) or tf.is_tensor(images)
    if is_array and len(images) != labels:
        raise ValueError(f"Expected a label for each image, received {len(images)} images and {labels} labels.")
