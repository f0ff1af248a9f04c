"""Types and ranges of optimizers' arguments."""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, TypedDict

from keras.optimizers.schedules import LearningRateSchedule

from tfdml.registry.arguments import either, instance, integer, mapping, number, optional, text

# A number, a schedule, or a function that Keras calls in each step.
LearningRate: TypeAlias = float | LearningRateSchedule | Callable[[], Any]


class GroupArguments(TypedDict, total=False):
    """Arguments of every Keras optimizer but for its weight decay, then those of `LayerGroups`."""

    clipnorm: float | None
    clipvalue: float | None
    global_clipnorm: float | None
    use_ema: bool
    ema_momentum: float
    ema_overwrite_frequency: int | None
    loss_scale_factor: float | None
    gradient_accumulation_steps: int | None
    name: str | None
    lr_multipliers: Mapping[str, float] | None
    frozen_steps: Mapping[str, int] | None
    decay_biases_and_norms: bool
    l2: bool
    layer_decay: float | None


class OptimizerArguments(GroupArguments, total=False):
    """Arguments of every Keras optimizer, then those of `LayerGroups`."""

    weight_decay: float | None


SHARE = number(at_least=0, below=1)
# Arguments of `LayerGroups`.
GROUPS = {
    "lr_multipliers": optional(mapping(number(at_least=0), keys="layer groups")),
    "frozen_steps": optional(mapping(integer(0), keys="layer groups")),
    "layer_decay": optional(number(above=0, at_most=1)),
}
# Arguments of every Keras optimizer.
COMMON = {
    "weight_decay": optional(number(at_least=0, at_most=10)),
    "clipnorm": optional(number(above=0)),
    "clipvalue": optional(number(above=0)),
    "global_clipnorm": optional(number(above=0)),
    "ema_momentum": number(at_least=0, at_most=1),
    "ema_overwrite_frequency": optional(integer(1)),
    "loss_scale_factor": optional(number(above=0)),
    "gradient_accumulation_steps": optional(integer(2)),
    "name": optional(text()),
    **GROUPS,
}


def _learning_rate(at_most):
    return either(number(above=0, at_most=at_most), instance(Callable, "a Keras schedule or a function of the step"))


# Adam changes each weight by about the learning rate, whatever the gradient is.
ADAM_ARGUMENTS = {
    **COMMON,
    "learning_rate": _learning_rate(at_most=10),
    "beta_1": SHARE,
    "beta_2": SHARE,
    "epsilon": number(above=0),
}
SGD_ARGUMENTS = {**COMMON, "learning_rate": _learning_rate(at_most=100), "momentum": SHARE}
