"""Stops a run whose loss is NaN or infinite."""

import keras
import numpy as np

from tfdml.callbacks.steps_taken import steps_taken
from tfdml.errors import TrainingDiverged


class DivergenceGuard(keras.callbacks.Callback):
    """Raises `TrainingDiverged` at the first step whose loss or gradient norm is not finite.

    Args:
        step: function that returns the number of steps taken; None: the optimizer's `iterations`.
    """

    def __init__(self, step=None):
        super().__init__()
        self._step = step or (lambda: steps_taken(self.model))

    def on_train_batch_end(self, batch, logs=None):
        # Loss scaling skips steps whose gradient overflows, which is correct.
        scaled = isinstance(self.model.optimizer, keras.optimizers.LossScaleOptimizer)
        watched = ("loss",) if scaled else ("loss", "gradient_norm")
        for name in watched:
            value = float((logs or {}).get(name, 0.0))
            if not np.isfinite(value):
                raise TrainingDiverged(f"The {name.replace('_', ' ')} is {value}", self._step())
