"""Parts of a run for the callbacks of its method and its loss."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np


@dataclasses.dataclass(frozen=True)
class TrainingParts:
    """Parts of a run by `tfdml.train`, for `EmbeddingModel.callbacks` and `EmbeddingLoss.callbacks`.

    Args:
        images: function that returns all training images in the order of the sampler's rows, preprocessed as in
            evaluation: a dataset of full batches, which may extend beyond the last row; of several workers, this one's
            share.
        labels: `[N]` class numbers.
        sampler: the sampler of the training batches, bound to the labels.
        seed: integer.
        steps: number of steps of the whole run.
        steps_per_epoch: number of steps of an epoch.
        step: function that returns the number of steps taken.
        log: `RunLog`.
        verbose: verbosity of embedding, see `tfdml.evaluation.embedder.Embedder`.
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
        names = ("steps_per_epoch", "log", "step", "verbose")
        return {name: getattr(self, name) for name in names}
