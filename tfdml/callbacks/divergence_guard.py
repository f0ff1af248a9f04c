"""Stops a run whose loss or weights are NaN or infinite."""

import keras
import numpy as np
from keras import ops

from tfdml.callbacks.steps_taken import steps_taken
from tfdml.registry.arguments import StepCounter


class TrainingDiverged(FloatingPointError, RuntimeError):
    """Raised when the loss, the gradient, or a result of these is NaN or infinite.

    Args:
        problem: what is not finite.
        step: number of steps taken.
    """

    def __init__(self, problem: str, step: int):
        super().__init__(
            f"{problem} at step {step}. Try a lower learning rate, a larger margin of the loss, or float32: "
            "keras.config.set_dtype_policy('float32'), in a command --precision=float32. Earlier checkpoints are "
            "intact."
        )


class DivergenceGuard(keras.callbacks.Callback):
    """Raises `TrainingDiverged` at the first step whose loss or gradient norm is not finite.

    A model that is not of tfdml logs no gradient norm. Its weights are looked at after each epoch: on a CPU, relu makes
    zeros of the NaN in an image, so that the weights become NaN and the loss does not.

    Args:
        step: function that returns the number of steps taken; None: the optimizer's `iterations`.
    """

    def __init__(self, step: StepCounter | None = None):
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

    def on_epoch_end(self, epoch, logs=None):
        if "gradient_norm" in (logs or {}):
            return
        for weight in self.model.trainable_variables:
            if not np.all(ops.isfinite(weight)):
                raise TrainingDiverged(f"The weight {weight.path} is not finite", self._step())
