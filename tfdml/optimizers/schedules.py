"""Learning rate schedules in epochs, as Keras schedules.

A run passes `learning_rate`, `steps_per_epoch` and `epochs` to schedules with such arguments unless the spec sets them.
"""

from collections.abc import Sequence
from typing import Annotated

from keras.optimizers.schedules import CosineDecay, ExponentialDecay, LearningRateSchedule, PiecewiseConstantDecay

from tfdml.registry import register
from tfdml.registry.arguments import Count, NotNegative, Positive, Share, either, number, several

# Arguments that a run passes to every schedule.
Rate = Annotated[float, number(above=0, at_most=100)]
Epochs = Annotated[float | Sequence[float], either(number(above=0), several(number(above=0), at_least=0))]


@register("schedule", "constant")
def constant(learning_rate: Rate) -> float:
    """Keeps the learning rate constant.

    Args:
        learning_rate: Float. Learning rate.

    Returns:
        The learning rate.

    Example:

    ```python
    tfdml.optimizers.schedules.constant(0.01)  # 0.01
    ```
    """
    return learning_rate


@register("schedule", "step")
def step(
    learning_rate: Rate,
    steps_per_epoch: Count,
    at: Epochs = (),
    every: Positive | None = None,
    factor: Positive = 0.1,
) -> LearningRateSchedule:
    """Multiplies the learning rate by `factor` at each of the epochs `at`, or every `every` epochs.

    Args:
        learning_rate: Float. Initial learning rate.
        steps_per_epoch: Integer. Number of steps per epoch.
        at: Number, or numbers in ascending order. Epochs of the changes, which can be fractions. Defaults to `()`.
        every: Float or `None`. Number of epochs between changes, instead of `at`. Defaults to `None`.
        factor: Float. Multiplier of the learning rate at each change. Defaults to `0.1`.

    Returns:
        Keras learning rate schedule.

    Raises:
        ValueError: If not exactly one of `at` and `every` is set, or if `at` is not in ascending order.

    Example:

    ```python
    schedule = tfdml.optimizers.schedules.step(0.01, steps_per_epoch=100, at=(2, 4))
    [float(schedule(step)) for step in (0, 200, 400)]  # [0.01, 0.001, 0.0001]
    ```
    """
    at = at if isinstance(at, tuple) else (at,)
    if bool(at) == (every is not None):
        raise ValueError(f"step() needs either at=(epoch, ...) or every=epochs. Received: at={at}, every={every}.")
    if every is not None:
        return exponential(learning_rate, steps_per_epoch, every=every, factor=factor, staircase=True)
    changes = [_steps("at", epoch, steps_per_epoch) for epoch in at]
    if changes != sorted(set(changes)):
        raise ValueError(f"step() needs epochs in ascending order, at least one step apart. Received: at={at}.")
    # Keras' boundary is the last step with the old value, not the first step with the new one.
    boundaries = [first - 1 for first in changes]
    return PiecewiseConstantDecay(boundaries, [learning_rate * factor**power for power in range(len(changes) + 1)])


@register("schedule", "exponential")
def exponential(
    learning_rate: Rate, steps_per_epoch: Count, every: Positive = 1.0, factor: Positive = 0.94, staircase: bool = False
) -> LearningRateSchedule:
    """Multiplies the learning rate by `factor` over every `every` epochs, smoothly or in steps.

    Args:
        learning_rate: Float. Initial learning rate.
        steps_per_epoch: Integer. Number of steps per epoch.
        every: Float. Number of epochs over which the learning rate is multiplied by `factor`. Defaults to `1.0`.
        factor: Float. Multiplier of the learning rate. Defaults to `0.94`.
        staircase: Boolean. If `True`, the learning rate changes only after every `every` epochs. If `False`, it changes
            in every step. Defaults to `False`.

    Returns:
        Keras learning rate schedule.

    Example:

    ```python
    schedule = tfdml.optimizers.schedules.exponential(0.01, steps_per_epoch=100, factor=0.5)
    [float(schedule(step)) for step in (0, 100, 200)]  # [0.01, 0.005, 0.0025]
    ```
    """
    return ExponentialDecay(learning_rate, _steps("every", every, steps_per_epoch), factor, staircase=staircase)


@register("schedule", "cosine")
def cosine(
    learning_rate: Rate,
    steps_per_epoch: Count,
    epochs: Positive,
    warmup_epochs: NotNegative = 0.0,
    floor: Share = 0.0,
) -> LearningRateSchedule:
    """Decays the learning rate by half a cosine to `floor` times its maximum, after an optional linear warmup.

    Args:
        learning_rate: Float. Maximum learning rate.
        steps_per_epoch: Integer. Number of steps per epoch.
        epochs: Float. Number of epochs, including the warmup.
        warmup_epochs: Float. Number of epochs in which the learning rate rises linearly from 0. All layers are trained.
            Defaults to `0.0`.
        floor: Float. Learning rate at the end, as a fraction of the maximum. Defaults to `0.0`.

    Returns:
        Keras learning rate schedule.

    Raises:
        ValueError: If the warmup is not shorter than the training.

    Example:

    ```python
    schedule = tfdml.optimizers.schedules.cosine(0.01, steps_per_epoch=100, epochs=3, warmup_epochs=1)
    [float(schedule(step)) for step in (50, 100, 200, 300)]  # [0.005, 0.01, 0.005, 0.0]
    ```
    """
    if warmup_epochs >= epochs:
        raise ValueError(
            f"cosine() needs 0 <= warmup_epochs < epochs. Received: warmup_epochs={warmup_epochs:g}, epochs={epochs:g}."
        )
    rise = round(warmup_epochs * steps_per_epoch)
    fall = _steps("epochs", epochs, steps_per_epoch) - rise
    if not rise:
        return CosineDecay(learning_rate, fall, alpha=floor)
    return CosineDecay(0.0, fall, alpha=floor, warmup_target=learning_rate, warmup_steps=rise)


def _steps(argument, epochs, steps_per_epoch):
    steps = round(epochs * steps_per_epoch)
    if steps < 1:
        raise ValueError(
            f"{argument} must be at least one step. Received: {argument}={epochs} epochs of {steps_per_epoch} steps."
        )
    return steps
