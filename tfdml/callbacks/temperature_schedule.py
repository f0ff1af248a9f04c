"""Changes a loss' temperature from step to step."""

import keras

from tfdml.callbacks.steps_taken import steps_taken


class TemperatureSchedule(keras.callbacks.Callback):
    """Brings the loss' `negative_temperature` evenly from one value to another, equation (15) of Ranked List Loss.

    It depends on the number of steps taken and on nothing else, so a run that goes on from a checkpoint has the same.

    Example: `model.fit(batches, callbacks=[TemperatureSchedule(first=10.0, last=5.0, steps=1000)])`.

    Args:
        first: temperature of the first step.
        last: temperature after `steps` steps, and from then on.
        steps: how many steps the way from the first to the last takes.
        step: function that gives the number of steps taken; Keras' count of the optimizer if None.
        loss: the loss whose temperature it is, such as one of those in a `WeightedSum`; the model's if None.
    """

    def __init__(self, first, last, steps, *, step=None, loss=None):
        super().__init__()
        if steps < 1:
            raise ValueError(f"Expected at least one step, received steps={steps}.")
        self.first, self.last, self.steps = first, last, steps
        self._loss = loss
        self._step = step or (lambda: steps_taken(self.model))

    def on_train_begin(self, logs=None):
        loss = self._loss or self.model.loss
        if not hasattr(loss, "negative_temperature"):
            raise ValueError(f"Expected a loss with a negative_temperature, such as RankedList, received {loss!r}.")

    def on_train_batch_begin(self, batch, logs=None):
        loss = self._loss or self.model.loss
        loss.negative_temperature = temperature_at(self._step(), self.first, self.last, self.steps)


def temperature_at(step, first, last, steps):
    """The temperature of the step before which so many were taken, equation (15) of Ranked List Loss."""
    return first - min(step, steps) * (first - last) / steps
