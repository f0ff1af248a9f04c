"""Learning rates that change with the step, as Keras schedules; specs count in epochs.

Each takes what a run knows, `learning_rate`, `steps_per_epoch` and perhaps `epochs`, unless the spec sets it.
"""

from keras.optimizers.schedules import CosineDecay, ExponentialDecay, PiecewiseConstantDecay

from tfdml.arguments import either, integer, number, optional, several
from tfdml.registry import register

# What a run tells every schedule.
RATE, STEPS = number(above=0, at_most=100), integer(1)
EPOCHS = number(above=0)


@register("schedule", "constant", learning_rate=RATE)
def constant(learning_rate):
    """One learning rate all the time."""
    return learning_rate


@register(
    "schedule",
    "step",
    learning_rate=RATE,
    steps_per_epoch=STEPS,
    at=either(EPOCHS, several(EPOCHS, at_least=0)),
    every=optional(EPOCHS),
    factor=number(above=0),
)
def step(learning_rate, steps_per_epoch, at=(), every=None, factor=0.1):
    """Times `factor` at each of the epochs `at`, or every so many epochs.

    Args:
        learning_rate: the first learning rate.
        steps_per_epoch: steps of an epoch.
        at: epochs, rising; fractions of epochs too.
        every: epochs between changes, in place of `at`.
        factor: what the learning rate is multiplied with.
    """
    at = at if isinstance(at, tuple) else (at,)
    if bool(at) == (every is not None):
        raise ValueError(f"step needs either at=(epoch, ...) or every=epochs, received at={at} and every={every}.")
    if every is not None:
        return exponential(learning_rate, steps_per_epoch, every=every, factor=factor, staircase=True)
    changes = [_steps("at", epoch, steps_per_epoch) for epoch in at]
    if changes != sorted(set(changes)):
        raise ValueError(f"step(at=...) needs rising epochs, received {at}.")
    # Keras' boundary is the last step of the old value.
    boundaries = [first - 1 for first in changes]
    return PiecewiseConstantDecay(boundaries, [learning_rate * factor**power for power in range(len(changes) + 1)])


@register("schedule", "exponential", learning_rate=RATE, steps_per_epoch=STEPS, every=EPOCHS, factor=number(above=0))
def exponential(learning_rate, steps_per_epoch, every=1.0, factor=0.94, staircase=False):
    """Times `factor` every so many epochs, smoothly or in steps.

    Args:
        learning_rate: the first learning rate.
        steps_per_epoch: steps of an epoch.
        every: epochs over which the learning rate is multiplied with `factor`.
        factor: what the learning rate is multiplied with.
        staircase: True changes it at once at the end of these epochs.
    """
    return ExponentialDecay(learning_rate, _steps("every", every, steps_per_epoch), factor, staircase=staircase)


@register(
    "schedule",
    "cosine",
    learning_rate=RATE,
    steps_per_epoch=STEPS,
    epochs=EPOCHS,
    warmup_epochs=number(at_least=0),
    floor=number(at_least=0, at_most=1),
)
def cosine(learning_rate, steps_per_epoch, epochs, warmup_epochs=0.0, floor=0.0):
    """Half a cosine from the learning rate down to `floor` times it, after a linear rise from 0 if wanted.

    Args:
        learning_rate: the highest learning rate.
        steps_per_epoch: steps of an epoch.
        epochs: when it ends, the rise included.
        warmup_epochs: epochs of the rise, in which all layers train.
        floor: share of the learning rate at the end.
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
        raise ValueError(f"Expected {argument} to be one step or more, received {epochs} epochs of {steps_per_epoch}.")
    return steps
