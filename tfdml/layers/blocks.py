"""The blocks of a network, from stem to head, found in its graph."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import keras

from tfdml.layers.stages import paths_around, stages
from tfdml.runtime.keras_internals import calls_of, inner_layers, layers_of


class Block(NamedTuple):
    """A block of a network.

    Args:
        name: that of its last layer with weights.
        variables: its trainable variables.
    """

    name: str
    variables: list[keras.Variable]


def blocks_of(networks: Sequence[keras.Model]) -> list[Block]:
    """Returns the blocks that training changes, from shallow to deep; a ValueError where there are fewer than two.

    A block ends where branches join, as of a residual block or an Inception module; behind a layer that is made of
    layers, as one of a transformer, also inside of one that is made of several such; and where a stage ends. A norm
    behind it belongs to it.

    Args:
        networks: a functional Keras model, alone.
    """
    try:
        (network,) = networks
        found = _blocks(network)
    except (ValueError, AttributeError):
        # Several, or of a class of their own, which may do anything in its `call`.
        found = []
    if len(found) < 2:
        names = ", ".join(network.name for network in networks) or "none"
        raise ValueError(
            "Layer decay needs one backbone whose graph has two blocks or more: a functional Keras model, such as "
            f"those of tfdml.backbones. Received {names}; name groups of layers in lr_multipliers instead."
        )
    return found


def composed_layers(layer):
    """Returns the layers inside of one that are made of layers, but for those made of several of such a kind."""
    found = []
    for each in inner_layers(layer):
        goes_on = isinstance(each, keras.Model) or _is_stack(each)
        found += composed_layers(each) if goes_on else [each] * _is_composed(each)
    return found


def _blocks(network):
    found, seen = [], set()
    for layers in _runs(network):
        each = {id(variable): variable for layer in layers for variable in layer.trainable_variables}
        variables = [variable for key, variable in each.items() if key not in seen]
        seen.update(each)
        if found and all(len(each.shape) < 2 for each in variables):
            found[-1].variables.extend(variables)
        elif variables:
            found.append(Block([layer.name for layer in layers if layer.trainable_variables][-1], variables))
    return found


def _runs(network):
    """Yields the layers of each part of the graph that ends where a block may end."""
    (images,), (output,) = network.inputs, network.outputs
    calls = calls_of(images, output)
    # Behind these there is no other path.
    alone = {id(call): features for call, features, around in paths_around(calls, output) if not around}
    ends, run, branches = {id(features) for features in stages(images, output, whole=True).values()}, [], []
    for call in calls:
        branches.append(call)
        if id(call) not in alone:
            continue
        layers = [each.operation for each in branches if isinstance(each.operation, keras.Layer)]
        if len(branches) > 1:
            yield run
            yield from _parts(layers) if any(map(_is_stack, layers)) else [layers]
            run = []
        elif isinstance(call.operation, keras.Model) and call.operation.inputs:
            yield run
            yield from _runs(call.operation)
            run = []
        else:
            *before, run = _parts([*run, *layers])
            yield from before
        if id(alone[id(call)]) in ends:
            yield run
            run = []
        branches = []
    yield run


def _parts(layers):
    """Returns runs of layers in turn, one for each layer that is made of layers; the last may be empty."""
    found = [[]]
    for layer in layers:
        if _is_stack(layer):
            found += _parts(inner_layers(layer))
            # What variables it has itself.
            found[-1].append(layer)
            found.append([])
        elif _is_composed(layer):
            found += [[layer], []]
        else:
            found[-1].append(layer)
    return found


def _is_stack(layer):
    """Whether a layer is made of several of a kind that are made of layers, as those of a transformer."""
    kinds = Counter(type(each) for each in inner_layers(layer) if _is_composed(each))
    return max(kinds.values(), default=0) > 1


def _is_composed(layer):
    inner = [each for each in layers_of(layer) if each is not layer and each.trainable_variables]
    return len(inner) > 1
