"""Adam, AdamW and SGD with settings per layer group, for one or several replicas."""

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
    """Returns the spec of Adam with the learning rate `text`, or "" if the text is not a number."""
    return f'"adam(learning_rate={text})"' if re.fullmatch(r"[\d.]+(e-?\d+)?", text) else ""


@register("optimizer", "adam")
class Adam(LayerGroups, _Adam):
    """Keras' Adam optimizer with learning rates, freezing and weight decay per layer group.

    It is a good default for fine-tuning. Use `lr_multipliers` to train the layers of a pretrained backbone with a lower
    learning rate than the embedding or the proxies of a loss, and `frozen_steps` to train only these at first.

    Args:
        learning_rate: Float, Keras schedule or function of the step. Defaults to `0.001`.
        beta_1: Float. Decay of the average of the gradients. Defaults to `0.9`.
        beta_2: Float. Decay of the average of the squared gradients. Defaults to `0.999`.
        epsilon: Float. Constant in the denominator for numerical stability. Defaults to `1e-7`.
        amsgrad: Boolean. Whether to use the AMSGrad variant. Defaults to `False`.
        weight_decay: Float or `None`. Weight decay per step, multiplied by the learning rate. Defaults to `None`.
        clipnorm, clipvalue, global_clipnorm, use_ema, ema_momentum, ema_overwrite_frequency, loss_scale_factor,
            gradient_accumulation_steps, name: see `keras.optimizers.Adam`.
        lr_multipliers, frozen_steps, decay_biases_and_norms, l2, layer_decay: see `LayerGroups`.

    Example:

    ```python
    multipliers = {"backbone": 0.1, "loss": 100}
    optimizer = tfdml.optimizers.Adam(1e-4, lr_multipliers=multipliers, frozen_steps={"backbone": 500})
    optimizer.get_config()["frozen_steps"]  # {"backbone": 500}
    ```
    """

    learning_rate: AdamRate = 0.001
    beta_1: Average = 0.9
    beta_2: Average = 0.999
    epsilon: Annotated[float, number(above=0), OF_KERAS] = 1e-7
    amsgrad: Annotated[bool, boolean(), OF_KERAS] = False
    weight_decay: WeightDecay = None


@register("optimizer", "adamw")
class AdamW(LayerGroups, _AdamW):
    """Keras' AdamW optimizer with learning rates, freezing and weight decay per layer group.

    It is Adam with decoupled weight decay. For vision transformers, consider `decay_biases_and_norms=False` and
    `layer_decay`.

    Args:
        learning_rate: Float, Keras schedule or function of the step. Defaults to `0.001`.
        beta_1: Float. Decay of the average of the gradients. Defaults to `0.9`.
        beta_2: Float. Decay of the average of the squared gradients. Defaults to `0.999`.
        epsilon: Float. Constant in the denominator for numerical stability. Defaults to `1e-7`.
        amsgrad: Boolean. Whether to use the AMSGrad variant. Defaults to `False`.
        weight_decay: Float or `None`. Weight decay per step, multiplied by the learning rate. Defaults to `0.004`.
        clipnorm, clipvalue, global_clipnorm, use_ema, ema_momentum, ema_overwrite_frequency, loss_scale_factor,
            gradient_accumulation_steps, name: see `keras.optimizers.AdamW`.
        lr_multipliers, frozen_steps, decay_biases_and_norms, l2, layer_decay: see `LayerGroups`.

    Example:

    ```python
    optimizer = tfdml.optimizers.AdamW(1e-4, weight_decay=0.05, decay_biases_and_norms=False, layer_decay=0.75)
    optimizer.get_config()["layer_decay"]  # 0.75
    ```
    """

    learning_rate: AdamRate = 0.001
    weight_decay: WeightDecay = 0.004
    beta_1: Average = 0.9
    beta_2: Average = 0.999
    epsilon: Annotated[float, number(above=0), OF_KERAS] = 1e-7
    amsgrad: Annotated[bool, boolean(), OF_KERAS] = False


@register("optimizer", "sgd")
class SGD(LayerGroups, _SGD):
    """Keras' SGD optimizer with learning rates, freezing and weight decay per layer group.

    Use it to reproduce papers that train with SGD, usually with a momentum of 0.9.

    Args:
        learning_rate: Float, Keras schedule or function of the step. Defaults to `0.01`.
        momentum: Float. Fraction of the previous update that is added to each update. Defaults to `0.0`.
        nesterov: Boolean. Whether to use Nesterov momentum. Defaults to `False`.
        weight_decay: Float or `None`. Weight decay per step, multiplied by the learning rate. Defaults to `None`.
        clipnorm, clipvalue, global_clipnorm, use_ema, ema_momentum, ema_overwrite_frequency, loss_scale_factor,
            gradient_accumulation_steps, name: see `keras.optimizers.SGD`.
        lr_multipliers, frozen_steps, decay_biases_and_norms, l2, layer_decay: see `LayerGroups`.

    Example:

    ```python
    optimizer = tfdml.optimizers.SGD(0.01, momentum=0.9, lr_multipliers={"embedding": 10})
    optimizer.get_config()["lr_multipliers"]  # {"embedding": 10}
    ```
    """

    learning_rate: SGDRate = 0.01
    momentum: Average = 0.0
    nesterov: Annotated[bool, boolean(), OF_KERAS] = False
    weight_decay: WeightDecay = None


# Optimizers that use `iterations` elementwise, so the count may differ between columns of a variable.
USE_STEPS = (keras.optimizers.Adam, keras.optimizers.Adamax)


def count_apart(optimizer, steps_of):
    """Makes an optimizer count only the steps that trained a variable, instead of all steps.

    This affects the bias correction of Adam, AdamW and Adamax. Learning rate schedules still count all steps. Other
    optimizers are unchanged: most do not use the number of steps, but some, such as Nadam and Lamb, count all steps.

    `steps_of` is a function from a Keras variable to its count before this step, which is an integer tensor that
    broadcasts against the variable, or None for all steps.
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


# Optimizers that treat each number separately, so the update of a shard is the same as in the whole variable.
ELEMENTWISE = (
    keras.optimizers.Adagrad,
    keras.optimizers.Adam,
    keras.optimizers.Adamax,
    keras.optimizers.Lion,
    keras.optimizers.RMSprop,
    keras.optimizers.SGD,
)


def prepare_for_replicas(optimizer, replicas):
    """Makes a Keras optimizer accept gradients that are an equal share of their sum on each replica.

    Such gradients need no exchange, so the optimizer can also update shards. The slots that it creates for a
    `ShardedVariable` are sharded in the same way.
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
    """Raises a ValueError if the optimizer would update a shard differently from the whole variable."""
    if not isinstance(optimizer, ELEMENTWISE):
        names = ", ".join(each.__name__ for each in ELEMENTWISE)
        raise ValueError(
            f"sharded=True requires an optimizer that updates each number from its own gradients. Expected {names}, or "
            f"a subclass of one of them. Received: {type(optimizer).__name__}."
        )
