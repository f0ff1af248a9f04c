"""Learning rate schedules in epochs, as Keras schedules.

A run passes `learning_rate`, `steps_per_epoch` and `epochs` to a schedule that takes them, unless the spec sets them.
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
    """A constant learning rate."""
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
        learning_rate: initial learning rate.
        steps_per_epoch: number of steps in an epoch.
        at: epochs in ascending order; may be fractions.
        every: number of epochs between changes, instead of `at`.
        factor: multiplier of the learning rate.
    """
    at = at if isinstance(at, tuple) else (at,)
    if bool(at) == (every is not None):
        raise ValueError(f"step needs either at=(epoch, ...) or every=epochs, received at={at} and every={every}.")
    if every is not None:
        return exponential(learning_rate, steps_per_epoch, every=every, factor=factor, staircase=True)
    changes = [_steps("at", epoch, steps_per_epoch) for epoch in at]
    if changes != sorted(set(changes)):
        raise ValueError(f"step(at=...) needs epochs in ascending order, received {at}.")
    # Keras' boundary is the last step with the old value.
    boundaries = [first - 1 for first in changes]
    return PiecewiseConstantDecay(boundaries, [learning_rate * factor**power for power in range(len(changes) + 1)])


@register("schedule", "exponential")
def exponential(
    learning_rate: Rate, steps_per_epoch: Count, every: Positive = 1.0, factor: Positive = 0.94, staircase: bool = False
) -> LearningRateSchedule:
    """Multiplies the learning rate by `factor` over every `every` epochs, smoothly or in steps.

    Args:
        learning_rate: initial learning rate.
        steps_per_epoch: number of steps in an epoch.
        every: number of epochs over which the learning rate is multiplied by `factor`.
        factor: multiplier of the learning rate.
        staircase: True changes the learning rate only at the end of these epochs.
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
    """Decays the learning rate by half a cosine to `floor` times its maximum, after an optional linear warmup from 0.

    Args:
        learning_rate: maximum learning rate.
        steps_per_epoch: number of steps in an epoch.
        epochs: number of epochs, warmup included.
        warmup_epochs: number of epochs of warmup, in which all layers train.
        floor: fraction of the learning rate at the end.
    """
    if warmup_epochs >= epochs:
        raise ValueError(f"cosine needs 0 <= warmup_epochs < epochs, received {warmup_epochs:g} and {epochs:g}.")
    rise = round(warmup_epochs * steps_per_epoch)
    fall = _steps("epochs", epochs, steps_per_epoch) - rise
    if not rise:
        return CosineDecay(learning_rate, fall, alpha=floor)
    return CosineDecay(0.0, fall, alpha=floor, warmup_target=learning_rate, warmup_steps=rise)


def _steps(argument, epochs, steps_per_epoch):
    steps = round(epochs * steps_per_epoch)
    if steps < 1:
        raise ValueError(
            f"Expected {argument} to be one step or more, received {epochs} epochs of {steps_per_epoch} steps."
        )
    return steps
