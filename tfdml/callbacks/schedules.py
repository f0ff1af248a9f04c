"""Callbacks that change training from step to step: temperature schedules, weight averages and frozen backbones."""

import contextlib
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import keras
from keras import ops

from tfdml.callbacks.base import check_single_steps, steps_taken
from tfdml.registry.arguments import Count, StepCounter, number
from tfdml.registry.fields import Declared
from tfdml.runtime.backends import scope_of, tensorflow_if_used, uses_tensorflow
from tfdml.runtime.sharded_variable import ShardedVariable


class TemperatureSchedule(Declared, keras.callbacks.Callback):
    """Callback that changes the `negative_temperature` of a loss linearly during training.

    This is equation (15) of Ranked List Loss. The temperature depends only on the number of steps taken, so a resumed
    run continues with the same values.

    Args:
        first: Float. Temperature in the first step.
        last: Float. Temperature after `steps` steps and later.
        steps: Integer. Number of steps from the first to the last temperature.
        step: Function that returns the number of steps taken. If `None`, it is the optimizer's `iterations`. Defaults
            to `None`.
        loss: Loss to change, for example one of the losses in a `WeightedSum`. If `None`, it is the model's loss.
            Defaults to `None`.

    Raises:
        ValueError: If the loss has no `negative_temperature`, or if the model was compiled with
            `steps_per_execution` above 1.

    Example:

    ```python
    images, labels = np.random.uniform(-2, 2, (8, 16, 16, 3)), np.array([0, 0, 1, 1, 2, 2, 3, 3])
    model = tfdml.Single(tfdml.backbones.Small(width=4, stages=2), embedding_size=8)
    loss = tfdml.losses.RankedList()
    model.compile("adam", loss)
    schedule = tfdml.callbacks.TemperatureSchedule(first=10.0, last=5.0, steps=2)
    history = model.fit(images, labels, epochs=2, callbacks=[schedule], verbose=0)
    loss.negative_temperature  # 7.5
    ```
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
        # A check of the class would reject a user's own loss.
        if not hasattr(loss, "negative_temperature"):
            raise ValueError(
                "TemperatureSchedule changes the negative_temperature of a loss. Expected a loss that has one, such as "
                f"tfdml.losses.RankedList. Received: loss={loss!r}."
            )
        check_single_steps(self.model, "TemperatureSchedule sets a temperature before every step")

    def on_train_batch_begin(self, batch, logs=None):
        loss = self._loss or self.model.loss
        loss.negative_temperature = temperature_at(self._step(), self.first, self.last, self.steps)


def temperature_at(step, first, last, steps):
    """Returns the temperature after `step` steps, equation (15) of Ranked List Loss."""
    return first - min(step, steps) * (first - last) / steps


class WeightAverage(Declared, keras.callbacks.Callback):
    """Callback that computes an exponential moving average of a model's weights and moving statistics.

    After step t, the average moves toward the weights by the fraction `1 - min(decay, (1 + t) / (10 + t))`, as in
    `tf.train.ExponentialMovingAverage`. At first it covers about the last 10% of the steps, so it is also useful in
    short runs. List it before the callbacks that evaluate or save the model.

    Args:
        decay: Float. Maximum fraction of the average that remains in a step. With larger values, the average covers
            more steps: 0.999 averages over about 1,000 steps. Defaults to `0.999`.

    Raises:
        ValueError: If the model has no weights yet, differs from the model of an earlier `fit`, or was compiled with
            `steps_per_execution` above 1.

    Example:

    ```python
    images, labels = np.random.uniform(-2, 2, (8, 16, 16, 3)), np.array([0, 0, 1, 1, 2, 2, 3, 3])
    model = tfdml.Single(tfdml.backbones.Small(width=4, stages=2), embedding_size=8)
    model.compile("adam", "triplet")
    average = tfdml.callbacks.WeightAverage(0.999)
    evaluation = tfdml.callbacks.RetrievalEvaluation(images, labels, average=average)
    history = model.fit(images, labels, epochs=2, callbacks=[average, evaluation], verbose=0)
    with average.applied():
        embeddings = model.predict(images, verbose=0)  # With the averaged weights.
    average.steps  # 2
    ```
    """

    def __init__(self, decay: Annotated[float, number(above=0, below=1)] = 0.999):
        super().__init__()
        self.decay = decay
        self.steps = 0
        self.variables = []
        tensorflow = tensorflow_if_used()
        self._update = tensorflow.function(self._move, autograph=False) if tensorflow else self._move

    def on_train_begin(self, logs=None):
        check_single_steps(self.model, "WeightAverage updates its average after every step")
        self.make()
        if self.steps == 0:
            # Callbacks such as InitialEmbedding may have changed the weights since the average was made.
            _assign(self.variables, [variable.numpy() for variable in self._averaged])

    def make(self, model: keras.Model | None = None) -> None:
        """Initializes the average with the current weights, unless it exists. `fit` calls this method.

        Args:
            model: Keras model to average. If `None`, it is the model of `fit`. Defaults to `None`.
        """
        if model is not None:
            self.set_model(model)
        if self.variables:
            if self._averaged[0] is not _float_variables(self.model)[0]:
                raise ValueError(
                    "This WeightAverage already averages the weights of another model. Use a new WeightAverage for "
                    "each model."
                )
            return
        if not self.model.built:
            raise ValueError("WeightAverage needs a model that has weights. Call the model on a batch before fit().")
        self._averaged, averages = _float_variables(self.model), []
        with scope_of(self.model):
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
        with scope_of(self.model):
            self._update(ops.convert_to_tensor(1 - decay, "float32"))

    @contextlib.contextmanager
    def applied(self) -> Iterator[None]:
        """Returns a context in which the model has the averaged weights.

        Raises:
            ValueError: If the average does not exist yet.
        """
        if not self.variables:
            raise ValueError(
                "WeightAverage has no average yet. List it before the callbacks that use it, or call make(model)."
            )
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
                way = ops.convert_to_tensor(towards) - ops.convert_to_tensor(part)
                part.assign_add(ops.cast(share, way.dtype) * way)


def _float_variables(model):
    """Returns the weights that can be averaged, without the integer state of random layers."""
    return [each for each in model.variables if keras.backend.is_float_dtype(each.dtype)]


def _parts(variable):
    if isinstance(variable, ShardedVariable):
        return variable.shards
    # On a strategy, only the variable of TensorFlow can be changed on every device.
    return [variable.value if uses_tensorflow() else variable]


def _assign(variables, values):
    for variable, value in zip(variables, values, strict=True):
        variable.assign(value)


class WaitingBackbone(Declared, keras.callbacks.Callback):
    """Callback that saves time by computing no gradients of the backbone while the optimizer freezes it.

    Use it with an optimizer that has `frozen_steps={"backbone": steps}`, with the same number of steps. The weights
    after training are the same as without this callback. The training step is compiled once more when the backbone
    starts to train.

    Args:
        steps: Integer. Number of steps at the start in which the backbone is frozen.
        step: Function that returns the number of steps taken. If `None`, it is the optimizer's `iterations`. Defaults
            to `None`.

    Raises:
        ValueError: If the model was compiled with `steps_per_execution` above 1.

    Example:

    ```python
    images, labels = np.random.uniform(-2, 2, (8, 16, 16, 3)), np.array([0, 0, 1, 1, 2, 2, 3, 3])
    model = tfdml.Single(tfdml.backbones.Small(width=4, stages=2), embedding_size=8)
    model.compile(tfdml.optimizers.Adam(frozen_steps={"backbone": 2}), "triplet")
    model.build((None, 16, 16, 3))
    kernel = model.backbone.weights[0].numpy()
    history = model.fit(images, labels, epochs=2, callbacks=[tfdml.callbacks.WaitingBackbone(2)], verbose=0)
    np.array_equal(model.backbone.weights[0].numpy(), kernel)  # True
    ```
    """

    def __init__(self, steps: Count, *, step: StepCounter | None = None):
        super().__init__()
        self.steps = steps
        self._step = step or (lambda: steps_taken(self.model))

    def on_train_begin(self, logs=None):
        check_single_steps(self.model, "WaitingBackbone changes the model between two steps")
        self.model.let_backbones_wait(self._step() < self.steps)

    def on_train_batch_begin(self, batch, logs=None):
        # The order matters: reading the optimizer's counter waits for the device, so stop once the backbone trains.
        if self.model.backbones_wait and self._step() >= self.steps:
            self.model.let_backbones_wait(False)

    def on_train_end(self, logs=None):
        # A later `fit` without this callback must train all weights.
        self.model.let_backbones_wait(False)
