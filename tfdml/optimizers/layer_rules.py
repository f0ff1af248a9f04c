"""Learning rate, freezing and weight decay of each variable, from its layer group."""

import dataclasses
import fnmatch

from tfdml.registry.arguments import nearest

# Names of weights that are not always vectors: attention has a bias for each head.
UNDECAYED = ("bias", "beta", "gamma")
MOST_NAMES = 12


@dataclasses.dataclass(frozen=True)
class LayerRule:
    """Settings of one variable.

    Args:
        multiplier: multiplier of the learning rate; 0 freezes.
        frozen_steps: number of first steps in which it is frozen.
        decays: whether weight decay applies.
    """

    multiplier: float
    frozen_steps: int
    decays: bool


def layer_rules(variables, lr_multipliers, frozen_steps, decay_biases_and_norms, named):
    """Returns the `LayerRule` of each variable.

    Args:
        variables: Keras variables.
        lr_multipliers: group to multiplier.
        frozen_steps: group to number of steps.
        decay_biases_and_norms: whether weight decay applies to biases and norms.
        named: `{group: variables}` that a model names; every other group is matched against paths.
    """
    multipliers = _by_variable(lr_multipliers, variables, named, default=1.0)
    frozen = _by_variable(frozen_steps, variables, named, default=0)
    decays = [decay_biases_and_norms or not _is_bias_or_norm(variable) for variable in variables]
    return [LayerRule(*each) for each in zip(multipliers, frozen, decays, strict=True)]


def decayed(rules, variables, decay, blocks):
    """Returns rules whose multipliers fall from the head to the stem.

    Args:
        rules: `LayerRule` of each variable.
        variables: Keras variables.
        decay: factor from a block to the one before it.
        blocks: the variables of each block, from stem to head; other variables are those of the head.
    """
    if not blocks:
        raise ValueError(
            "layer_decay needs the blocks of a network, which models of tfdml name: compile one with this optimizer, "
            "or call optimizer.name_blocks."
        )
    factors = {id(each): decay ** (len(blocks) - place) for place, block in enumerate(blocks) for each in block}
    each = zip(rules, variables, strict=True)
    return [dataclasses.replace(rule, multiplier=rule.multiplier * factors.get(id(of), 1.0)) for rule, of in each]


def _by_variable(values, variables, named, default):
    """Returns the value of each variable's group; of several groups the last one applies."""
    owners = [None] * len(variables)
    for group in values:
        for place in _members(group, variables, named):
            owners[place] = group
    for group in values:
        if group not in owners:
            raise ValueError(
                f"Every variable of the layer group {group!r} is also in a later group, which overrides it; write the "
                f"larger group first. Received {', '.join(values)}."
            )
    return [default if group is None else values[group] for group in owners]


def _members(group, variables, named):
    """Returns the indices of the variables that match a group's name."""
    if group in named:
        own = {id(variable) for variable in named[group]}
        found = [place for place, variable in enumerate(variables) if id(variable) in own]
    else:
        found = [place for place, variable in enumerate(variables) if _matches(group, variable.path)]
    if not found:
        raise ValueError(_no_member(group, variables, named))
    return found


def _matches(pattern, path):
    return any(fnmatch.fnmatchcase(word, pattern) for word in (path, *path.split("/")))


def _no_member(group, variables, named):
    paths = [variable.path.split("/") for variable in variables]
    layers = list(dict.fromkeys(word for path in paths for word in path[:-1]))
    if group in named:
        return f"The layer group {group!r} of this model has no trainable variables, so nothing can be set for it."
    hint = nearest(group, [*named, *layers])
    shown = ", ".join([*layers[-MOST_NAMES:], *(["..."] if len(layers) > MOST_NAMES else [])])
    groups = f"{', '.join(named)}, or " if named else ""
    return (
        f"No trainable variable belongs to the layer group {group!r}.{hint} Expected {groups}a layer's name, in which "
        f"'*' matches anything: {shown}."
    )


def _is_bias_or_norm(variable):
    return len(variable.shape) <= 1 or variable.name in UNDECAYED
