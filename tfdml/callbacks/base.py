"""The base of callbacks that embed all training images, and what a run hands to callbacks."""

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

    `int(model.optimizer.iterations)` is an error if the model was compiled under a MirroredStrategy.
    """
    return int(model.optimizer.iterations.numpy())


def check_single_steps(model, why):
    """Raises a ValueError if the model executes several steps at once; `why` is the beginning of the sentence."""
    if model.steps_per_execution != 1:
        raise ValueError(
            f"{why}, and steps_per_execution={model.steps_per_execution} executes several at once. Leave it out."
        )


class PassArguments(TypedDict, total=False):
    """Arguments of `EmbeddingCallback` that callbacks pass on to it."""

    count: int | None
    steps_per_epoch: int | None
    log: Any
    step: StepCounter | None
    verbose: Verbosity


class MethodModel(keras.Model):
    """What callbacks ask of the models of `tfdml.methods`, and of no other model of Keras."""

    # `Division` of the data and the embedding among learners; None for methods that divide neither.
    division = None
    # `LossLayers`, with the layer of the loss for each learner.
    loss_layers = None


class EmbeddingCallback(keras.callbacks.Callback):
    """Makes passes over all training images, which several workers share, at the start of epochs.

    A subclass has the method `begin_epoch(epoch, goes_on)`, and calls `embed` in it.

    Args:
        images: all training images in the order of the sampler's rows, preprocessed as in evaluation: a dataset of
            full batches, which may extend beyond the last row, or an array.
        count: number of training images; None: all of `images`.
        steps_per_epoch: steps of an epoch, so that one is recognised that a resumed run goes on with; None: each call
            of `fit` begins with a whole epoch.
        log: object with `write(event, step, values)`, or None.
        step: function that returns the number of steps taken; None: the optimizer's `iterations`.
        verbose: verbosity of embedding, see `tfdml.evaluation.embedder.Embedder`.
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
        # Keras sets it at each `fit`.
        self._first = True

    @property
    def workers(self) -> Workers:
        """The `Workers` that train together."""
        return self._embedder.workers

    def on_epoch_begin(self, epoch, logs=None):
        # Later ones are whole, whatever steps a scaled loss has skipped, or gradients have been accumulated.
        goes_on = self._first and bool(self.steps_per_epoch and self._step() % self.steps_per_epoch)
        self._first = False
        self.begin_epoch(epoch, goes_on)

    def begin_epoch(self, epoch: int, goes_on: bool) -> None:
        """Does what is to be done at the start of an epoch.

        Args:
            epoch: number of the epoch, from 0.
            goes_on: whether a resumed run goes on with it, from a checkpoint that has what its start has made.
        """
        raise NotImplementedError(f"{type(self).__name__} needs the method begin_epoch(epoch, goes_on).")

    def embed(self) -> np.ndarray:
        """Returns the embeddings `[N, d]` of all training images, after checking that they are finite."""
        embeddings = self._embedder(self.images, self.count)
        check_finite(embeddings)
        return embeddings

    def tell(self, event: str, values: Mapping[str, Any]) -> None:
        """Writes values to the log, if there is one."""
        if self.log:
            self.log.write(event, self._step(), values)


@dataclasses.dataclass(frozen=True)
class TrainingParts:
    """Parts of a run by `tfdml.train`, for `EmbeddingModel.callbacks` and `EmbeddingLoss.callbacks`.

    `images` is a function that returns all training images in the order of the sampler's rows, preprocessed as in
    evaluation: a dataset of full batches, which may extend beyond the last row; of several workers, this one's share.
    The sampler is bound to the labels `[N]`. `steps` are those of the whole run, and `step` is a function that returns
    how many are taken. The log is a `RunLog`, and `verbose` that of an `Embedder`.
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
        """The arguments that every `EmbeddingCallback` of a run has."""
        return {name: getattr(self, name) for name in ("steps_per_epoch", "log", "step", "verbose")}
