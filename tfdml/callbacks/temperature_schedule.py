"""Changes the temperature of a loss from step to step."""

import keras

from tfdml.callbacks.steps_taken import check_single_steps, steps_taken
from tfdml.registry.arguments import StepCounter


class TemperatureSchedule(keras.callbacks.Callback):
    """Changes the `negative_temperature` of a loss linearly, equation (15) of Ranked List Loss.

    It depends only on the number of steps taken, so it is the same in a resumed run.

    Example: `model.fit(batches, callbacks=[TemperatureSchedule(first=10.0, last=5.0, steps=1000)])`.

    Args:
        first: temperature of the first step.
        last: temperature after `steps` steps and later.
        steps: number of steps from the first to the last temperature.
        step: function that returns the number of steps taken; None: the optimizer's `iterations`.
        loss: the loss to change, such as one in a `WeightedSum`; None: the model's loss.
    """

    def __init__(
        self,
        first: float,
        last: float,
        steps: int,
        *,
        step: StepCounter | None = None,
        loss: keras.losses.Loss | None = None,
    ):
        super().__init__()
        if steps < 1:
            raise ValueError(f"Expected at least one step, received steps={steps}.")
        self.first, self.last, self.steps = first, last, steps
        self._loss = loss
        self._step = step or (lambda: steps_taken(self.model))

    def on_train_begin(self, logs=None):
        loss = self._loss or self.model.loss
        # A loss of the user's own may have one, too.
        if not hasattr(loss, "negative_temperature"):
            raise ValueError(f"Expected a loss with a negative_temperature, such as RankedList, received {loss!r}.")
        check_single_steps(self.model, "TemperatureSchedule sets a temperature before every step")

    def on_train_batch_begin(self, batch, logs=None):
        loss = self._loss or self.model.loss
        loss.negative_temperature = temperature_at(self._step(), self.first, self.last, self.steps)


def temperature_at(step, first, last, steps):
    """Returns the temperature after `step` steps, equation (15) of Ranked List Loss."""
    return first - min(step, steps) * (first - last) / steps
