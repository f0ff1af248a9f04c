"""Learning rates, freezing and weight decay per group of layers."""

import contextlib
import dataclasses
import fnmatch
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY
from typing import Annotated, Any, TypeAlias

import keras
from keras import ops
from keras.optimizers.schedules import LearningRateSchedule

from tfdml.registry.arguments import (
    Tensor,
    boolean,
    either,
    instance,
    integer,
    mapping,
    nearest,
    number,
    optional,
    text,
)
from tfdml.registry.fields import OF_KERAS, Declared
from tfdml.runtime.keras_internals import decays, iterations_replaced, place_of, trained_variables

# Weights with these names count as vectors even if they have more dimensions, like the biases of attention heads.
UNDECAYED = ("bias", "beta", "gamma")
MOST_NAMES = 12


@dataclasses.dataclass(frozen=True)
class LayerRule:
    """Settings of one variable: the multiplier of its learning rate and whether weight decay applies.

    A multiplier of 0 freezes the variable. It is also frozen in the first `frozen_steps` steps.
    """

    multiplier: float
    frozen_steps: int
    decays: bool


def layer_rules(variables, lr_multipliers, frozen_steps, decay_biases_and_norms, named):
    """Returns the `LayerRule` of each variable.

    `lr_multipliers` and `frozen_steps` are dictionaries by group. `named` contains the variables of the groups that a
    model names. All other groups are matched against the paths of variables.
    """
    multipliers = _by_variable(lr_multipliers, variables, named, default=1.0)
    frozen = _by_variable(frozen_steps, variables, named, default=0)
    decays = [
        decay_biases_and_norms or (len(variable.shape) > 1 and variable.name not in UNDECAYED) for variable in variables
    ]
    return [LayerRule(*each) for each in zip(multipliers, frozen, decays, strict=True)]


def decayed(rules, variables, decay, blocks):
    """Returns the rules with multipliers that decrease by the factor `decay` from each block to the previous one.

    `blocks` are lists of variables, from stem to head. All other variables count as the head.
    """
    if not blocks:
        raise ValueError(
            "layer_decay needs the blocks of a network, but this optimizer does not know them. Compile a tfdml model "
            "with this optimizer, or call optimizer.name_blocks(function)."
        )
    factors = {id(each): decay ** (len(blocks) - place) for place, block in enumerate(blocks) for each in block}
    each = zip(rules, variables, strict=True)
    return [dataclasses.replace(rule, multiplier=rule.multiplier * factors.get(id(of), 1.0)) for rule, of in each]


def _by_variable(values, variables, named, default):
    """Returns the value of each variable's group. If a variable belongs to several groups, the last one applies."""
    owners = [None] * len(variables)
    for group in values:
        for place in _members(group, variables, named):
            owners[place] = group
    for group in values:
        if group not in owners:
            raise ValueError(
                f"The layer group {group!r} has no effect, because all its variables also belong to later groups. "
                f"Received: {', '.join(values)}. List the larger group first."
            )
    return [default if group is None else values[group] for group in owners]


def _members(group, variables, named):
    if group in named:
        members = {id(variable) for variable in named[group]}
        places = [place for place, variable in enumerate(variables) if id(variable) in members]
    else:
        words = [(variable.path, *variable.path.split("/")) for variable in variables]
        places = [place for place, each in enumerate(words) if any(fnmatch.fnmatchcase(word, group) for word in each)]
    if not places:
        raise ValueError(_no_member(group, variables, named))
    return places


def _no_member(group, variables, named):
    paths = [variable.path.split("/") for variable in variables]
    layers = list(dict.fromkeys(word for path in paths for word in path[:-1]))
    if group in named:
        return f"The layer group {group!r} of this model has no trainable variables. Remove the group."
    hint = nearest(group, [*named, *layers])
    shown = ", ".join([*layers[-MOST_NAMES:], *(["..."] if len(layers) > MOST_NAMES else [])])
    groups = f"{', '.join(named)}, or " if named else ""
    return (
        f"No trainable variable belongs to the layer group {group!r}.{hint} Expected {groups}the name of a layer, in "
        f"which '*' matches any text: {shown}."
    )


# A number, a schedule, or a function that Keras calls in every step.
LearningRate: TypeAlias = float | LearningRateSchedule | Callable[[], Any]


def _learning_rate(at_most):
    return either(number(above=0, at_most=at_most), instance(Callable, "a Keras schedule or a function of the step"))


# Adam's limit is lower, because it changes each weight by about the learning rate, whatever the gradient is.
AdamRate = Annotated[LearningRate, _learning_rate(at_most=10), OF_KERAS]
SGDRate = Annotated[LearningRate, _learning_rate(at_most=100), OF_KERAS]
Average = Annotated[float, number(at_least=0, below=1), OF_KERAS]
WeightDecay = Annotated[float | None, optional(number(at_least=0, at_most=10)), OF_KERAS]


@contextlib.contextmanager
def counting(optimizer, steps):
    """Returns a context in which `optimizer.iterations` is `steps`. If `None`, it is unchanged.

    `steps` is an integer tensor that broadcasts against the updated variable.
    """
    if steps is None:
        yield
        return
    # Keras divides the count by the number of accumulation steps.
    with iterations_replaced(optimizer, steps * (optimizer.gradient_accumulation_steps or 1)):
        yield


# Name of the keys of these mappings in error messages.
GROUPS = "layer groups"


class LayerGroups(Declared):
    """Mixin that adds a learning rate, freezing and weight decay per layer group to a Keras optimizer.

    Use it to make another Keras optimizer accept layer groups. `tfdml.optimizers.Adam`, `AdamW` and `SGD` already do.

    For tfdml models, a layer group is `"backbone"`, `"embedding"` or `"loss"`. For any model, it is also the name of a
    layer or weight in `variable.path`, in which `*` matches any text. If a variable belongs to several groups, the last
    one applies. With the defaults, every step is bit-for-bit identical to the step of the Keras optimizer.

    Args:
        clipnorm, clipvalue, global_clipnorm, use_ema, ema_momentum, ema_overwrite_frequency, loss_scale_factor,
            gradient_accumulation_steps, name: see `keras.optimizers.Optimizer`.
        lr_multipliers: Dictionary from layer group to a multiplier of its learning rate, and thus of its weight decay.
            A multiplier of 0 freezes the group. If `None`, all multipliers are 1. Defaults to `None`.
        frozen_steps: Dictionary from layer group to the number of steps at the start in which it is frozen. It then
            starts with new optimizer state. If `None`, no group is frozen. Defaults to `None`.
        decay_biases_and_norms: Boolean. Whether weight decay also applies to vectors, such as biases and the scales and
            offsets of normalization layers. Defaults to `True`.
        layer_decay: Float or `None`. Factor of the learning rate from each block of the backbone to the previous one,
            in addition to `lr_multipliers`. With `0.75`, the learning rate of the last block is 0.75 times the
            embedding's, the learning rate of the block before it 0.75² times, and so on. If `None`, all blocks have the
            same learning rate. Defaults to `None`.
        l2: Boolean. If `True`, the weight decay is added to the gradient, as in Caffe and in PyTorch's SGD and Adam. If
            `False`, it shrinks the weights separately. Defaults to `False`.

    Raises:
        ValueError: When the optimizer is built, if no trainable variable belongs to a group.

    Example:

    ```python
    class RMSprop(tfdml.optimizers.LayerGroups, keras.optimizers.RMSprop):
        pass


    optimizer = RMSprop(0.01, lr_multipliers={"last": 0})
    model = keras.Sequential([keras.layers.Dense(4, name="first"), keras.layers.Dense(2, name="last")])
    model.compile(optimizer, "mse")
    history = model.fit(np.ones((4, 3)), np.ones((4, 2)), verbose=0)
    model.get_layer("last").bias.numpy()  # [0, 0]
    ```
    """

    _: KW_ONLY
    clipnorm: Annotated[float | None, optional(number(above=0)), OF_KERAS] = None
    clipvalue: Annotated[float | None, optional(number(above=0)), OF_KERAS] = None
    global_clipnorm: Annotated[float | None, optional(number(above=0)), OF_KERAS] = None
    use_ema: Annotated[bool, boolean(), OF_KERAS] = False
    ema_momentum: Annotated[float, number(at_least=0, at_most=1), OF_KERAS] = 0.99
    ema_overwrite_frequency: Annotated[int | None, optional(integer(1)), OF_KERAS] = None
    loss_scale_factor: Annotated[float | None, optional(number(above=0)), OF_KERAS] = None
    gradient_accumulation_steps: Annotated[int | None, optional(integer(2)), OF_KERAS] = None
    name: Annotated[str | None, optional(text()), OF_KERAS] = None
    lr_multipliers: Annotated[Mapping[str, float] | None, optional(mapping(number(at_least=0), keys=GROUPS))] = None
    frozen_steps: Annotated[Mapping[str, int] | None, optional(mapping(integer(0), keys=GROUPS))] = None
    decay_biases_and_norms: bool = True
    l2: bool = False
    layer_decay: Annotated[float | None, optional(number(above=0, at_most=1))] = None

    # Functions, because Keras would track variables in a list.
    _named_groups, _blocks = dict, list
    _rules = _steps_of = None

    def __init_subclass__(cls, **kwargs):
        # Keras itself checks arguments that the class does not declare.
        keras_optimizer = next(
            base for base in cls.__mro__ if base is not Declared and not issubclass(base, LayerGroups)
        )
        declared_names = cls.fields | inspect.get_annotations(cls)
        for name, parameter in inspect.signature(keras_optimizer).parameters.items():
            if parameter.kind is parameter.POSITIONAL_OR_KEYWORD and name not in declared_names:
                cls.__annotations__[name] = Annotated[Any, instance(object, "a value that Keras accepts"), OF_KERAS]
                setattr(cls, name, parameter.default)
        super().__init_subclass__(**kwargs)

    def name_groups(self, groups: Callable[[], dict[str, list[keras.Variable]]]) -> None:
        """Sets the layer groups of a model. tfdml models call it before the optimizer is built.

        Args:
            groups: Function that returns a dictionary from the name of a group to its variables.
        """
        self._named_groups = groups

    def name_blocks(self, blocks: Callable[[], list[list[keras.Variable]]]) -> None:
        """Sets the blocks of a backbone for `layer_decay`. tfdml models call it before the optimizer is built.

        Args:
            blocks: Function that returns a list of the variables of each block, from stem to head.
        """
        self._blocks = blocks

    def count_apart(self, steps_of: Callable[[keras.Variable], Tensor]) -> None:
        """Sets the number of steps that trained each variable, see `tfdml.optimizers.optimizers.count_apart`.

        Args:
            steps_of: Function from a variable to its number of steps.
        """
        self._steps_of = steps_of

    def is_learning(self, variable: keras.Variable) -> Tensor:
        """Returns whether a variable is trained in this step, that is, not frozen.

        Args:
            variable: Variable that the optimizer was built for.

        Returns:
            Boolean scalar tensor.
        """
        rule = self._rules(place_of(self, variable))
        return self.iterations >= rule.frozen_steps if rule.multiplier else ops.convert_to_tensor(False)

    def build(self, variables: Sequence[keras.Variable]) -> None:
        if self.built:
            return
        rules = layer_rules(
            variables,
            self.lr_multipliers or {},
            self.frozen_steps or {},
            self.decay_biases_and_norms,
            self._named_groups(),
        )
        if self.layer_decay is not None:
            rules = decayed(rules, variables, self.layer_decay, self._blocks())
        # A function, because Keras would track variables in a list.
        self._rules = rules.__getitem__
        super().build(variables)

    def apply(self, grads: Sequence[Tensor], trainable_variables: Sequence[keras.Variable] | None = None) -> None:
        if trainable_variables is not None:
            self.build(trainable_variables)
        super().apply(self.without_frozen(grads, trainable_variables), trainable_variables)

    def without_frozen(
        self, gradients: Sequence[Tensor], variables: Sequence[keras.Variable] | None = None
    ) -> list[Tensor]:
        """Replaces the gradients of variables that are frozen in this step with zeros.

        Args:
            gradients: List of gradients.
            variables: List of their variables. If `None`, it is all variables of the optimizer. Defaults to `None`.

        Returns:
            List of gradients.
        """
        places = range(len(gradients)) if variables is None else (place_of(self, each) for each in variables)
        return [self._unless_frozen(each, self._rules(at)) for each, at in zip(gradients, places, strict=True)]

    def update_step(self, gradient: Tensor, variable: keras.Variable, learning_rate: Tensor) -> None:
        place = place_of(self, variable)
        rule = self._rules(place)
        if rule.multiplier == 0:
            return
        rate = ops.cast(learning_rate, variable.dtype)
        if rule.multiplier != 1:
            rate = rate * rule.multiplier
        if rule.frozen_steps:
            rate = rate * ops.cast(self.iterations >= rule.frozen_steps, variable.dtype)
        if self.weight_decay is not None and rule.decays and decays(self, variable):
            decay = ops.cast(self.weight_decay, variable.dtype)
            if self.l2:
                gradient = ops.add(ops.convert_to_tensor(gradient), variable * decay)
            else:
                self.assign_sub(variable, variable * decay * rate)
        if rule.frozen_steps:
            gradient = self._unless_frozen(gradient, rule)
        # The number of steps that trained the variable. None means all steps.
        steps = self._steps_of(trained_variables(self)[place]) if self._steps_of else None
        if steps is None and rule.frozen_steps:
            steps = ops.maximum(self.iterations - rule.frozen_steps, 0)
        with counting(self, steps):
            super().update_step(gradient, variable, rate)

    def get_config(self) -> dict[str, Any]:
        own = {
            "lr_multipliers": dict(self.lr_multipliers or {}),
            "frozen_steps": dict(self.frozen_steps or {}),
            "decay_biases_and_norms": self.decay_biases_and_norms,
            "l2": self.l2,
            "layer_decay": self.layer_decay,
        }
        return {**super().get_config(), **own}

    def _apply_weight_decay(self, variables):
        # Keras would use the same learning rate for all variables. `update_step` decays each with its own.
        pass

    def _unless_frozen(self, gradient, rule):
        if gradient is None or not (rule.frozen_steps or rule.multiplier == 0):
            return gradient
        gradient = ops.convert_to_tensor(gradient)
        if rule.multiplier == 0:
            return ops.zeros_like(gradient)
        return ops.where(self.iterations >= rule.frozen_steps, gradient, ops.zeros_like(gradient))
