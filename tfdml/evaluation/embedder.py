"""Embeds all images of a split."""

import functools
from typing import TYPE_CHECKING, Any, TypeAlias

import keras
import numpy as np
from keras import ops

from tfdml.console.progress_lines import ProgressLines
from tfdml.registry.arguments import Verbosity
from tfdml.runtime.backends import is_tensorflow_dataset, strategy_of
from tfdml.runtime.workers import Workers

if TYPE_CHECKING:
    import tensorflow as tf

# Number of images in a batch of an array, as in `keras.Model.predict`.
BATCH = 32
FLOATS = ("float16", "bfloat16", "float32", "float64")


# An array of images `[N, H, W, 3]`, or a dataset of batches of them.
if TYPE_CHECKING:
    ImageBatches: TypeAlias = np.ndarray | tf.Tensor | tf.data.Dataset | keras.utils.PyDataset
else:
    # On the other Keras backends, a `PyDataset` of batches.
    ImageBatches = Any


class NanWeight(ValueError):
    """Raised if a weight of the model is NaN."""

    def __init__(self, path, model):
        super().__init__(f"The weight {path} of {model.name} is NaN, so its embeddings are meaningless.")
        self.path = path


class Embedder:
    """Callable that embeds images with a model in batches and shows its progress.

    Use it to embed the same kind of images several times, for example after each epoch. Create one embedder per model,
    because the model's function is traced only once. If several workers share the work, each embeds a part of the
    batches and receives all embeddings at the end. They are bit-for-bit identical to the embeddings of a single
    process, because the batches are the same.

    Args:
        model: Keras model that maps images to embeddings `[B, D]`.
        verbose: `1` shows a progress bar, `2` prints a line every ten seconds, and `0` shows nothing. Defaults to `1`.
        workers: The `Workers` that share each pass. All of them must call this object. If `None`, the workers of the
            model's distribution strategy share it. Defaults to `None`.
        of: String. Name of the images in progress lines, such as `"test images"`. Defaults to `"images"`.

    Raises:
        ValueError: When it is called, if a weight of the model is NaN, or if the model does not return one array `[B,
            D]`.

    Example:

    ```python
    model = keras.Sequential([keras.Input([8, 8, 3]), keras.layers.Flatten(), keras.layers.Dense(4)])
    embed = tfdml.evaluation.Embedder(model, verbose=0)
    embed(np.zeros([5, 8, 8, 3], "float32"), 5).shape  # (5, 4)
    ```
    """

    def __init__(
        self, model: keras.Model, verbose: Verbosity = 1, workers: Workers | None = None, *, of: str = "images"
    ):
        self.model = model
        self.verbose, self.of = verbose, of
        self.workers = workers or Workers.of(strategy_of(model))
        self._is_shared = Workers.of(strategy_of(model)).count > 1

    def __call__(self, images: ImageBatches, count: int | None) -> np.ndarray:
        """Returns the embeddings `[count, D]` of images.

        If several workers share the pass, pass each a dataset with its own share, for example from
        `evaluation_batches(share=workers.share)`. The shares are joined in the order of the workers.

        Args:
            images: Array `[N, H, W, 3]`, or a dataset of batches.
            count: Integer. Number of images to return. Images of a dataset beyond it are dropped. If `None`, all
                embeddings are returned.

        Returns:
            Float array `[count, D]`.
        """
        if count is not None:
            check_count(images, count)
        self._check_weights()
        lines = self.verbose == 2
        of = f"the {self.of}" if count is None else f"{count:,} {self.of}"
        callbacks, bar = [ProgressLines(of=of)] if lines else [], 0 if lines else self.verbose
        if self._is_shared:
            # The share is computed inside gather, so that an error in it reaches all workers and none waits forever.
            (embeddings,) = self.workers.gather(lambda: self._embeddings(self._share(images), callbacks, bar))
        else:
            embeddings = self._checked(self.model.predict(images, verbose=bar, callbacks=callbacks))
        return embeddings[:count]

    def of_batch(self, images: np.ndarray) -> np.ndarray:
        """Returns the embeddings `[B, D]` of one batch. For a few images, this is faster than a dataset."""
        self._check_weights()
        return self._checked(self.model.predict_on_batch(images))

    @functools.cached_property
    def _forward(self):
        import tensorflow as tf

        return tf.function(lambda images: self.model(images, training=False), reduce_retracing=True)

    def _check_weights(self):
        # Embeddings may hide NaN: on CPUs, a convolution that is fused with its ReLU turns it into 0.
        weights = [weight for weight in self.model.weights if weight.dtype in FLOATS]
        found = [ops.any(ops.isnan(ops.convert_to_tensor(weight.value))) for weight in weights]
        # Check all weights with one transfer: every transfer waits for the device to finish.
        broken = np.flatnonzero(ops.convert_to_numpy(ops.stack(found))) if found else ()
        if len(broken):
            raise NanWeight(weights[broken[0]].path, self.model)

    def _share(self, images):
        """Returns this worker's share of an array as batches. A dataset already is a share."""
        import tensorflow as tf

        if is_tensorflow_dataset(images):
            return images
        batches = self.workers.share(-(-len(images) // BATCH))
        share = images[batches.start * BATCH : batches.stop * BATCH]
        return tf.data.Dataset.from_tensor_slices(share).batch(BATCH)

    def _embeddings(self, batches, callbacks, bar):
        """Returns the output of `predict`, which would split each batch over the workers; `()` without a batch."""
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
                f"The model {self.model.name} must return embeddings of shape [batch, dim]. Received: {received}. "
                "Pass the model to evaluate: RetrievalEvaluation(..., embedder=keras.Model(inputs, embeddings))."
            )
        # NumPy does not support bfloat16.
        return embeddings if embeddings.dtype.kind in "fiu" else embeddings.astype(np.float32)


def check_count(images, labels):
    """Raises a ValueError if an array of images has a different length than the labels."""
    is_array = isinstance(images, np.ndarray) or ops.is_tensor(images)
    if is_array and len(images) != labels:
        raise ValueError(f"Expected one label per image. Received: {len(images)} images and {labels} labels.")
