"""Adam, AdamW and SGD with settings for each group of layers, on one or several replicas."""

import re
from typing import TYPE_CHECKING, Annotated

import keras

from tfdml.optimizers.layer_rules import AdamRate, Average, LayerGroups, SGDRate, WeightDecay, counting
from tfdml.registry import register, register_short_form
from tfdml.registry.arguments import boolean, number
from tfdml.registry.fields import OF_KERAS
from tfdml.runtime.keras_internals import place_of, replace_sum_over_replicas, trained_variables
from tfdml.runtime.sharded_variable import ShardedVariable

if TYPE_CHECKING:
    from tfdml.registry.fields import OfKeras

    _Adam = _AdamW = _SGD = OfKeras
else:
    _Adam, _AdamW, _SGD = keras.optimizers.Adam, keras.optimizers.AdamW, keras.optimizers.SGD


@register_short_form("optimizer")
def meant_optimizer(text):
    """Returns the spec of Adam with a learning rate, if a text is one."""
    return f'"adam(learning_rate={text})"' if re.fullmatch(r"[\d.]+(e-?\d+)?", text) else ""


@register("optimizer", "adam")
class Adam(LayerGroups, _Adam):
    """Keras' Adam with learning rates by layer group; see `LayerGroups` and `keras.optimizers.Adam`.

    Example: `tfdml.optimizers.Adam(1e-4, lr_multipliers={"loss": 100}, frozen_steps={"backbone": 500})`.

    Args:
        learning_rate, beta_1, beta_2, epsilon, amsgrad, weight_decay, clipnorm, clipvalue, global_clipnorm, use_ema,
            ema_momentum, ema_overwrite_frequency, loss_scale_factor, gradient_accumulation_steps, name: Keras'.
        lr_multipliers, frozen_steps, decay_biases_and_norms, l2, layer_decay: see `LayerGroups`.
    """

    learning_rate: AdamRate = 0.001
    beta_1: Average = 0.9
    beta_2: Average = 0.999
    epsilon: Annotated[float, number(above=0), OF_KERAS] = 1e-7
    amsgrad: Annotated[bool, boolean(), OF_KERAS] = False
    weight_decay: WeightDecay = None


@register("optimizer", "adamw")
class AdamW(LayerGroups, _AdamW):
    """Keras' AdamW with learning rates by layer group; see `LayerGroups` and `keras.optimizers.AdamW`.

    Example: `tfdml.optimizers.AdamW(1e-4, weight_decay=1e-4, decay_biases_and_norms=False)`.

    Args:
        learning_rate, beta_1, beta_2, epsilon, amsgrad, weight_decay, clipnorm, clipvalue, global_clipnorm, use_ema,
            ema_momentum, ema_overwrite_frequency, loss_scale_factor, gradient_accumulation_steps, name: Keras'.
        lr_multipliers, frozen_steps, decay_biases_and_norms, l2, layer_decay: see `LayerGroups`.
    """

    learning_rate: AdamRate = 0.001
    weight_decay: WeightDecay = 0.004
    beta_1: Average = 0.9
    beta_2: Average = 0.999
    epsilon: Annotated[float, number(above=0), OF_KERAS] = 1e-7
    amsgrad: Annotated[bool, boolean(), OF_KERAS] = False


@register("optimizer", "sgd")
class SGD(LayerGroups, _SGD):
    """Keras' SGD with learning rates by layer group; see `LayerGroups` and `keras.optimizers.SGD`.

    Example: `tfdml.optimizers.SGD(0.01, momentum=0.9, lr_multipliers={"embedding": 10})`.

    Args:
        learning_rate, momentum, nesterov, weight_decay, clipnorm, clipvalue, global_clipnorm, use_ema,
            ema_momentum, ema_overwrite_frequency, loss_scale_factor, gradient_accumulation_steps, name: Keras'.
        lr_multipliers, frozen_steps, decay_biases_and_norms, l2, layer_decay: see `LayerGroups`.
    """

    learning_rate: SGDRate = 0.01
    momentum: Average = 0.0
    nesterov: Annotated[bool, boolean(), OF_KERAS] = False
    weight_decay: WeightDecay = None


# Optimizers that use `iterations` elementwise, so that the count may differ between columns of a variable.
USE_STEPS = (keras.optimizers.Adam, keras.optimizers.Adamax)


def count_apart(optimizer, steps_of):
    """Makes an optimizer update some variables by the number of steps that trained them, not by all steps.

    This affects the bias correction of Adam, AdamW and Adamax. The learning rate schedule counts all steps. Other
    optimizers are unchanged: most do not use the number of steps; Nadam, Lamb and others count all steps.

    `steps_of` is a function from a Keras variable to its count before this step, an integer tensor that broadcasts
    against the variable, or None: all steps.
    """
    if not isinstance(optimizer, USE_STEPS):
        return
    if isinstance(optimizer, LayerGroups):
        optimizer.count_apart(steps_of)
        return
    update_step = type(optimizer).update_step

    def update_by_own_steps(gradient, variable, learning_rate):
        trained = trained_variables(optimizer)[place_of(optimizer, variable)]
        with counting(optimizer, steps_of(trained)):
            update_step(optimizer, gradient, variable, learning_rate)

    vars(optimizer)["update_step"] = update_by_own_steps


def without_loss_scaling(optimizer):
    """Returns the optimizer that a `LossScaleOptimizer` wraps, or the optimizer itself."""
    return optimizer.inner_optimizer if isinstance(optimizer, keras.optimizers.LossScaleOptimizer) else optimizer


# Optimizers that treat each number by itself, so that a shard's are those that it would have in the whole.
ELEMENTWISE = (
    keras.optimizers.Adagrad,
    keras.optimizers.Adam,
    keras.optimizers.Adamax,
    keras.optimizers.Lion,
    keras.optimizers.RMSprop,
    keras.optimizers.SGD,
)


def prepare_for_replicas(optimizer, replicas):
    """Lets a Keras optimizer of several replicas take gradients that are an equal share of the sum on each of them.

    These need no exchange, and so it takes those of shards, too. What it keeps for a `ShardedVariable` is one itself.
    """
    if replicas == 1:
        return

    def summed(pairs):
        return [(None if gradient is None else gradient * replicas, variable) for gradient, variable in pairs]

    replace_sum_over_replicas(optimizer, summed)
    make = type(optimizer).add_variable_from_reference

    def add_variable_from_reference(reference_variable, *args, **kwargs):
        made = make(optimizer, reference_variable, *args, **kwargs)
        is_sharded = isinstance(reference_variable, ShardedVariable)
        return ShardedVariable.like(made, reference_variable) if is_sharded else made

    vars(optimizer)["add_variable_from_reference"] = add_variable_from_reference


def check_elementwise(optimizer):
    """Raises a ValueError for an optimizer that would treat a shard in another way than the whole."""
    if not isinstance(optimizer, ELEMENTWISE):
        names = ", ".join(each.__name__ for each in ELEMENTWISE)
        raise ValueError(
            f"{type(optimizer).__name__} may change a number by more than its own gradients, so that it would treat "
            f"shards in another way than the whole. With sharded=True take {names}, or what derives from them."
        )
