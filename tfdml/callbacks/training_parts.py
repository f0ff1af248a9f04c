"""What a run offers to the callbacks that its method and its loss bring."""

import dataclasses
from collections.abc import Callable

import numpy as np


@dataclasses.dataclass(frozen=True)
class TrainingParts:
    """Parts of a run by `tfdml.train`, for `EmbeddingModel.callbacks` and `EmbeddingLoss.callbacks`.

    Args:
        images: function that gives all training images in the order of the sampler's rows, as evaluation prepares
            them: a dataset of full batches, which may go on beyond the last row.
        labels: `[N]` their classes.
        sampler: the sampler of the training batches, bound to the labels.
        seed: integer.
        steps: number of steps of the whole run.
        step: function that gives the number of steps taken.
        log: `RunLog`.
        verbose: Keras' verbosity of passes over images.
    """

    images: Callable
    labels: np.ndarray
    sampler: object
    seed: int
    steps: int
    step: Callable
    log: object
    verbose: int
