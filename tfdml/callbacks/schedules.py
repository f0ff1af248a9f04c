"""Callbacks that change training from step to step: temperatures, averages of weights, frozen backbones."""

import contextlib
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import keras
import tensorflow as tf

from tfdml.callbacks.base import check_single_steps, steps_taken
from tfdml.registry.arguments import Count, StepCounter, number
from tfdml.registry.fields import Declared
from tfdml.runtime.sharded_variable import ShardedVariable


class TemperatureSchedule(Declared, keras.callbacks.Callback):
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
        steps: Count,
        *,
        step: StepCounter | None = None,
        loss: keras.losses.Loss | None = None,
    ):
        super().__init__()
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


class WeightAverage(Declared, keras.callbacks.Callback):
    """Computes an exponential moving average of a model's weights and moving statistics.

    After step t the average moves towards the weights by the fraction `1 - min(decay, (1 + t) / (10 + t))`, as in
    `tf.train.ExponentialMovingAverage`: at first it covers the last tenth of the steps, so that it is useful in short
    runs, too. List it before the callbacks that evaluate or save.

    Example: `model.fit(batches, callbacks=[average, RetrievalEvaluation(images, labels, average=average)])` where
    `average = WeightAverage(0.999)`, and then `with average.applied(): model.save("averaged.keras")`.

    Args:
        decay: maximum fraction of the average that remains in a step; 0.999 averages over about 1,000 steps.
    """

    def __init__(self, decay: Annotated[float, number(above=0, below=1)] = 0.999):
        super().__init__()
        self.decay = decay
        self.steps = 0
        self.variables = []
        self._update = tf.function(self._move, autograph=False)

    def on_train_begin(self, logs=None):
        check_single_steps(self.model, "WeightAverage moves after every step")
        self.make()
        if self.steps == 0:
            # What begins training may have changed them since.
            _assign(self.variables, [variable.numpy() for variable in self._averaged])

    def make(self, model: keras.Model | None = None) -> None:
        """Starts the average from the current weights, once. Training does it if you do not."""
        if model is not None:
            self.set_model(model)
        if self.variables:
            if self._averaged[0] is not _float_variables(self.model)[0]:
                raise ValueError("WeightAverage averages the weights of another model. Make a new one for each model.")
            return
        if not self.model.built:
            raise ValueError("WeightAverage needs a model with weights: call it on a batch before it is trained.")
        self._averaged, averages = _float_variables(self.model), []
        with self.model.distribute_strategy.scope():
            for variable in self._averaged:
                name = f"{variable.path.replace('/', '_')}_average"
                if isinstance(variable, ShardedVariable):
                    average = variable.copy(name)
                else:
                    average = keras.Variable(variable.numpy(), name=name, dtype=variable.dtype, trainable=False)
                averages.append(average)
        self.variables = averages

    def on_train_batch_end(self, batch, logs=None):
        self.steps += 1
        decay = min(self.decay, (1 + self.steps) / (10 + self.steps))
        with self.model.distribute_strategy.scope():
            self._update(tf.constant(1 - decay, tf.float32))

    @contextlib.contextmanager
    def applied(self) -> Iterator[None]:
        """Returns a context in which the model has the averaged weights."""
        if not self.variables:
            raise ValueError("WeightAverage has no average yet. List it before the callbacks that use it.")
        trained = [variable.numpy() for variable in self._averaged]
        _assign(self._averaged, [average.numpy() for average in self.variables])
        try:
            yield
        finally:
            _assign(self._averaged, trained)

    def get_state(self) -> dict[str, Any]:
        return {"steps": self.steps}

    def set_state(self, state: Mapping[str, Any]) -> None:
        self.steps = state["steps"]

    def _move(self, share):
        for average, variable in zip(self.variables, self._averaged, strict=True):
            for part, towards in zip(_parts(average), _parts(variable), strict=True):
                way = tf.convert_to_tensor(towards) - tf.convert_to_tensor(part)
                part.assign_add(tf.cast(share, way.dtype) * way)


def _float_variables(model):
    """The weights that have a mean: the state of random layers has none."""
    return [each for each in model.variables if keras.backend.is_float_dtype(each.dtype)]


def _parts(variable):
    return variable.shards if isinstance(variable, ShardedVariable) else [variable.value]


def _assign(variables, values):
    for variable, value in zip(variables, values, strict=True):
        variable.assign(value)


class WaitingBackbone(Declared, keras.callbacks.Callback):
    """Computes no gradients of the backbone in the first steps, which take less time, then those of all weights.

    The optimizer says that it stays as it is: `frozen_steps={"backbone": steps}`. The step is compiled once more when
    the backbone begins to learn; weights are those of training with `frozen_steps` alone.

    Example: `model.fit(batches, callbacks=[WaitingBackbone(500)])` with `AdamW(frozen_steps={"backbone": 500})`.

    Args:
        steps: number of first steps.
        step: function that returns the number of steps taken; None: the optimizer's `iterations`.
    """

    def __init__(self, steps: Count, *, step: StepCounter | None = None):
        super().__init__()
        self.steps = steps
        self._step = step or (lambda: steps_taken(self.model))

    def on_train_begin(self, logs=None):
        check_single_steps(self.model, "WaitingBackbone ends a stage between two steps")
        self.model.let_backbones_wait(self._step() < self.steps)

    def on_train_batch_begin(self, batch, logs=None):
        # Asking the optimizer each time, once it learns, would wait for the device.
        if self.model.backbones_wait and self._step() >= self.steps:
            self.model.let_backbones_wait(False)

    def on_train_end(self, logs=None):
        # Whoever trains on without this callback trains all.
        self.model.let_backbones_wait(False)
