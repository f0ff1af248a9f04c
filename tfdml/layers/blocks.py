"""Blocks and stages found in the graph of a network, and gradient checkpointing of blocks."""

import math
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import keras

from tfdml.functional.checks import is_floating
from tfdml.layers.norms import batch_norms, moves_statistics
from tfdml.registry.fields import declared
from tfdml.runtime.keras_internals import calls_of, inner_layers, layers_of

# So large that what padding adds or takes does not hide by how much a network reduces images.
SIDE, TIMES = 1024, 4


def stages(images, output, *, whole=False):
    """Returns name to Keras tensor of a network's stages, from shallow to deep.

    `stageN` is the last layer whose features have 1 / 2^N of the images' sides and through which all paths to the
    output lead. Where paths lead around all such layers, as in NASNet with its links from cell to cell, it is one with
    the fewest around it: the last of those that join the most. Layers that only pad are none.

    A network has no stages unless its images are `[B, H, W, c]`. If `whole`, the layers of the images' own resolution
    are a stage, too, `stage0`.
    """
    if len(images.shape) != 4:
        return {}
    calls, by_halvings = calls_of(images, output), {}
    sides, side = _sides(calls, images)
    for call, features, around in paths_around(calls, output):
        before = [sides[id(tensor)] or 0 for tensor in call.input_tensors]
        reduced = sides[id(features)]
        if not side or not reduced or reduced == 1:
            # Without positions, or with one that is left.
            continue
        halvings = round(math.log2(side / reduced))
        if halvings < (0 if whole else 1) or (around and len(before) == 1):
            continue
        if reduced > max(before, default=side):
            continue
        rank = (around, -len(before) if around else 0)
        if rank <= by_halvings.get(halvings, (rank,))[0]:
            # At the end again: from shallow to deep.
            by_halvings.pop(halvings, None)
            by_halvings[halvings] = rank, features
    deepest = max((halvings for halvings, (rank, _) in by_halvings.items() if not rank[0]), default=0)
    return {f"stage{halvings}": features for halvings, (_, features) in by_halvings.items() if halvings <= deepest}


def paths_around(calls, output):
    """Yields each call with one output of use, this output, and how many tensors of before are still needed after."""
    uses = Counter(id(tensor) for call in calls for tensor in call.input_tensors)
    uses[id(output)] += 1
    needed = 0
    for call in calls:
        uses.subtract(id(tensor) for tensor in call.input_tensors)
        needed -= sum(not uses[read] for read in {id(tensor) for tensor in call.input_tensors})
        used = [tensor for tensor in call.outputs if uses[id(tensor)] > 0]
        if len(used) == 1:
            yield call, used[0], needed
        needed += sum(uses[id(tensor)] > 0 for tensor in call.outputs)


def _sides(calls, images):
    """Returns the side of each tensor by its id, None without positions, and the images' side."""
    given_sides = images.shape[1:3]
    height, width = (SIDE if side is None else TIMES * side for side in given_sides)
    enlarged = keras.KerasTensor((images.shape[0], height, width, images.shape[3]), dtype=images.dtype)
    tensors, side = {id(images): enlarged}, height
    try:
        for call in calls:
            if call.input_tensors:
                args, kwargs = call.arguments.fill_in(tensors)
                outputs = keras.tree.flatten(call.operation.compute_output_spec(*args, **kwargs))
                tensors |= {id(old): new for old, new in zip(call.outputs, outputs, strict=True)}
    except Exception:  # Backends raise their own. A network may take one size alone, as one with tokens.
        tensors = {id(tensor): tensor for call in calls for tensor in call.outputs}
        side = given_sides[0]
    return {key: tensor.shape[1] if len(tensor.shape) == 4 else None for key, tensor in tensors.items()}, side


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
    behind it belongs to it. Networks are a functional Keras model, alone.
    """
    try:
        (network,) = networks
        blocks = _blocks(network)
    except (ValueError, AttributeError):
        # Several, or of a class of their own, which may do anything in its `call`.
        blocks = []
    if len(blocks) < 2:
        names = ", ".join(network.name for network in networks) or "none"
        raise ValueError(
            "Layer decay needs one backbone whose graph has two blocks or more: a functional Keras model, such as "
            f"those of tfdml.backbones. Received {names}; name groups of layers in lr_multipliers instead."
        )
    return blocks


def composed_layers(layer):
    """Returns the layers inside of one that are made of layers, but for those made of several of such a kind."""
    composed = []
    for each in inner_layers(layer):
        goes_on = isinstance(each, keras.Model) or _is_stack(each)
        composed += composed_layers(each) if goes_on else [each] * _is_composed(each)
    return composed


def _blocks(network):
    blocks, seen = [], set()
    for layers in _runs(network):
        each = {id(variable): variable for layer in layers for variable in layer.trainable_variables}
        variables = [variable for key, variable in each.items() if key not in seen]
        seen.update(each)
        if blocks and all(len(each.shape) < 2 for each in variables):
            blocks[-1].variables.extend(variables)
        elif variables:
            blocks.append(Block([layer.name for layer in layers if layer.trainable_variables][-1], variables))
    return blocks


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
    runs = [[]]
    for layer in layers:
        if _is_stack(layer):
            runs += _parts(inner_layers(layer))
            # What variables it has itself.
            runs[-1].append(layer)
            runs.append([])
        elif _is_composed(layer):
            runs += [[layer], []]
        else:
            runs[-1].append(layer)
    return runs


def _is_stack(layer):
    """Whether a layer is made of several of a kind that are made of layers, as those of a transformer."""
    kinds = Counter(type(each) for each in inner_layers(layer) if _is_composed(each))
    return max(kinds.values(), default=0) > 1


def _is_composed(layer):
    inner = [each for each in layers_of(layer) if each is not layer and each.trainable_variables]
    return len(inner) > 1


@declared
def recompute_blocks(network: keras.Model) -> int:
    """Lets gradients compute blocks of a network again, for less memory and more time; returns the number of blocks.

    Blocks are layers that are made of layers, as those of transformers. Keras' own `RematScope` fails in a traced step
    on TensorFlow, which takes no keywords there.

    Args:
        network: Keras model with variables, without dropout, whose batch norm is frozen.
    """
    blocks = [layer for layer in composed_layers(network) if layer.trainable_variables]
    if not blocks:
        raise ValueError(
            f"{network.name} has no blocks that are layers made of layers, as transformers have; pieces take less "
            "memory with any network."
        )
    for block in blocks:
        check_repeatable(block, "recomputed blocks", "leave them out")
        block.call = _recomputed(block.call)
    return len(blocks)


def check_repeatable(model, what, instead):
    """Raises a ValueError where a network does not give the same result for an image each time.

    The error says `what` needs this, and what to do `instead`, in words.
    """
    moving = [layer for layer in batch_norms(model) if moves_statistics(layer)]
    if moving:
        raise ValueError(
            f"{moving[0].name} normalizes with the statistics of a batch, which {what} would change. Freeze batch "
            f"norm with freeze_batch_norm='statistics' (in a command --freeze_batch_norm=statistics), or {instead}."
        )
    for layer in layers_of(model):
        draws = any(isinstance(value, keras.random.SeedGenerator) for value in vars(layer).values())
        if draws or layer.activity_regularizer is not None:
            does = "draws random numbers" if draws else "has an activity regularizer"
            raise ValueError(f"{layer.name} {does}, which does not work with {what}; {instead}.")


def _recomputed(call):

    def again(*args, **kwargs):
        leaves = keras.tree.flatten((args, kwargs))
        places = [place for place, leaf in enumerate(leaves) if keras.ops.is_tensor(leaf) and is_floating(leaf)]

        def of_tensors(*tensors):
            filled = list(leaves)
            for place, tensor in zip(places, tensors, strict=True):
                filled[place] = tensor
            args_again, kwargs_again = keras.tree.pack_sequence_as((args, kwargs), filled)
            return call(*args_again, **kwargs_again)

        return keras.remat(of_tensors)(*(leaves[place] for place in places))

    return again
