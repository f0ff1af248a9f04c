"""Base class of callbacks that embed all training images, and the objects that a run passes to callbacks."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, TypedDict

import keras
import numpy as np

from tfdml.evaluation.embedder import Embedder, ImageBatches
from tfdml.neighbors.clustering import check_finite
from tfdml.registry.arguments import StepCounter, Verbosity
from tfdml.runtime.workers import Workers


def steps_taken(model):
    """Returns the optimizer's `iterations` as an integer.

    `int(model.optimizer.iterations)` raises an error if the model was compiled under a MirroredStrategy.
    """
    return int(model.optimizer.iterations.numpy())


def check_single_steps(model, why):
    """Raises a ValueError if the model executes several steps at once; `why` starts the error message."""
    if model.steps_per_execution != 1:
        raise ValueError(
            f"{why}, so several steps must not be executed together. Expected a model compiled with "
            f"steps_per_execution=1. Received: steps_per_execution={model.steps_per_execution}. Remove it from "
            "compile()."
        )


class PassArguments(TypedDict, total=False):
    """Arguments that subclasses pass on to `EmbeddingCallback`."""

    count: int | None
    steps_per_epoch: int | None
    log: Any
    step: StepCounter | None
    verbose: Verbosity


class MethodModel(keras.Model):
    """Attributes of tfdml models that callbacks use and other Keras models do not have."""

    # The `Division` of data and embedding among learners, or None if the method divides neither.
    division = None
    # The `LossLayers`, which hold one layer of the loss per learner. PyTorch would not find it behind a default value.
    loss_layers: Any


class EmbeddingCallback(keras.callbacks.Callback):
    """Base class of callbacks that need the embeddings of all training images at the start of an epoch.

    Subclasses implement `begin_epoch(epoch, goes_on)` and call `embed` in it. If several workers train together, each
    of them embeds its share of the images, and all of them receive all embeddings.

    Args:
        images: All training images, in the order of the sampler's rows and preprocessed as in evaluation: an array, or
            a dataset of full batches, which may extend beyond the last row.
        count: Integer or `None`. Number of training images. If `None`, all of `images` are used. Defaults to `None`.
        steps_per_epoch: Integer or `None`. Number of steps per epoch, from which the callback recognizes that a resumed
            run continues in the middle of an epoch. If `None`, each call of `fit` starts a new epoch. Defaults to
            `None`.
        log: Object with a method `write(event, step, values)`, or `None` to write no log. Defaults to `None`.
        step: Function that returns the number of steps taken. If `None`, it is the optimizer's `iterations`. Defaults
            to `None`.
        verbose: Verbosity of embedding, see `tfdml.evaluation.embedder.Embedder`. Defaults to `0`.

    Raises:
        ValueError: If an embedding is NaN or infinite.

    Example:

    ```python
    class MeanLength(tfdml.callbacks.EmbeddingCallback):
        def begin_epoch(self, epoch, goes_on):
            self.length = np.linalg.norm(self.embed(), axis=1).mean()


    images, labels = np.random.uniform(-2, 2, (8, 16, 16, 3)), np.array([0, 0, 1, 1, 2, 2, 3, 3])
    model = tfdml.Single(tfdml.backbones.Small(width=4, stages=2), embedding_size=8)
    model.compile("adam", "triplet")
    callback = MeanLength(images)
    history = model.fit(images, labels, callbacks=[callback], verbose=0)
    callback.length  # 1.0
    ```
    """

    def __init__(
        self,
        images: ImageBatches,
        count: int | None = None,
        *,
        steps_per_epoch: int | None = None,
        log: Any = None,
        step: StepCounter | None = None,
        verbose: Verbosity = 0,
    ):
        super().__init__()
        self.images, self.count = images, count
        self.steps_per_epoch = steps_per_epoch
        self.log, self.verbose = log, verbose
        self._step = step or (lambda: steps_taken(self.model))

    def set_model(self, model):
        super().set_model(model)
        self._embedder = Embedder(model, verbose=self.verbose, of="training images")
        # Keras calls this method at each `fit`.
        self._first = True

    @property
    def workers(self) -> Workers:
        """The processes that train together, as `tfdml.runtime.workers.Workers`."""
        return self._embedder.workers

    def on_epoch_begin(self, epoch, logs=None):
        # Only the first epoch of a `fit` can be a resumed one. In later epochs, the number of steps proves nothing,
        # because loss scaling skips steps and gradient accumulation merges them.
        goes_on = self._first and bool(self.steps_per_epoch and self._step() % self.steps_per_epoch)
        self._first = False
        self.begin_epoch(epoch, goes_on)

    def begin_epoch(self, epoch: int, goes_on: bool) -> None:
        """Runs at the start of each epoch. Subclasses must implement it.

        Args:
            epoch: Integer. Number of the epoch, from 0.
            goes_on: Boolean. Whether a resumed run continues in the middle of this epoch. If so, the results of the
                epoch's start are already in the checkpoint.
        """
        raise NotImplementedError(f"{type(self).__name__} must implement the method begin_epoch(epoch, goes_on).")

    def embed(self) -> np.ndarray:
        """Computes the embeddings of all training images and checks that they are finite.

        Returns:
            NumPy array of shape `[N, d]`.

        Raises:
            ValueError: If an embedding is NaN or infinite.
        """
        embeddings = self._embedder(self.images, self.count)
        check_finite(embeddings)
        return embeddings

    def tell(self, event: str, values: Mapping[str, Any]) -> None:
        """Writes values to the log, if there is one.

        Args:
            event: String. Name of the event.
            values: Dictionary from names to values.
        """
        if self.log:
            self.log.write(event, self._step(), values)


@dataclasses.dataclass(frozen=True)
class TrainingParts:
    """Parts of a training run from which `EmbeddingModel.callbacks` and `EmbeddingLoss.callbacks` make callbacks.

    Args:
        images: Function that returns all training images in the order of the sampler's rows, preprocessed as in
            evaluation, as a dataset of full batches, which may extend beyond the last row. With several workers, it
            returns the share of this worker.
        labels: `[N]` integer class labels.
        sampler: Sampler that is bound to the labels.
        seed: Integer. Seed of the run.
        steps: Integer. Number of steps of the whole run.
        steps_per_epoch: Integer. Number of steps per epoch.
        step: Function that returns the number of steps taken.
        log: `RunLog` of the run.
        verbose: Verbosity of embedding, see `tfdml.evaluation.embedder.Embedder`.
    """

    images: Callable
    labels: np.ndarray
    sampler: object
    seed: int
    steps: int
    steps_per_epoch: int
    step: Callable
    log: object
    verbose: int

    def of_passes(self) -> dict[str, Any]:
        """Returns the arguments that every `EmbeddingCallback` of a run has in common."""
        return {name: getattr(self, name) for name in ("steps_per_epoch", "log", "step", "verbose")}
