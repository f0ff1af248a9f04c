"""Blocks and stages found in the graph of a network, and gradient checkpointing of blocks."""

import math
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import keras

from tfdml.functional.checks import is_floating
from tfdml.layers.loss_layer import LossLayer
from tfdml.layers.norms import batch_norms, moves_statistics
from tfdml.registry.fields import declared
from tfdml.runtime.keras_internals import calls_of, inner_layers, layers_of

# At sides this large, padding changes so little that the factor by which a network reduces images is clear.
SIDE, TIMES = 1024, 4


def stages(images, output, *, whole=False):
    """Returns a dictionary from name to Keras tensor of a network's stages, from shallow to deep.

    `stageN` is the last layer that reduces the images' sides to 1 / 2^N and through which all paths to the output
    lead. If paths lead around every such layer, as the links from cell to cell do in NASNet, it is the layer with the
    fewest paths around it; among several, the last one that joins the most tensors. Layers that only pad do not count.

    Only networks with images `[B, H, W, c]` have stages. If `whole`, `stage0` is the last layer at full resolution.
    """
    if len(images.shape) != 4:
        return {}
    calls, by_halvings = calls_of(images, output), {}
    sides, side = _sides(calls, images)
    for call, features, around in paths_around(calls, output):
        before = [sides[id(tensor)] or 0 for tensor in call.input_tensors]
        reduced = sides[id(features)]
        if not side or not reduced or reduced == 1:
            # The features have no positions, or only one.
            continue
        halvings = round(math.log2(side / reduced))
        if halvings < (0 if whole else 1) or (around and len(before) == 1):
            continue
        if reduced > max(before, default=side):
            continue
        rank = (around, -len(before) if around else 0)
        if rank <= by_halvings.get(halvings, (rank,))[0]:
            # Reinsert the stage at the end, which keeps the order from shallow to deep.
            by_halvings.pop(halvings, None)
            by_halvings[halvings] = rank, features
    deepest = max((halvings for halvings, (rank, _) in by_halvings.items() if not rank[0]), default=0)
    return {f"stage{halvings}": features for halvings, (_, features) in by_halvings.items() if halvings <= deepest}


def paths_around(calls, output):
    """Yields each call with one output that is used later, this output, and how many older tensors are used later."""
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
    """Returns a dictionary from id to side of each tensor (None without positions), and the images' side."""
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
    except Exception:  # Each backend raises its own error if a network accepts only one size, as those with tokens do.
        tensors = {id(tensor): tensor for call in calls for tensor in call.outputs}
        side = given_sides[0]
    return {key: tensor.shape[1] if len(tensor.shape) == 4 else None for key, tensor in tensors.items()}, side


class Block(NamedTuple):
    """A block of a network.

    Args:
        name: name of the last layer with weights in the block.
        variables: trainable variables of the block.
    """

    name: str
    variables: list[keras.Variable]


def blocks_of(networks: Sequence[keras.Model]) -> list[Block]:
    """Returns the trainable blocks of a network, from shallow to deep.

    A block ends when branches join, as in a residual block or an Inception module; after a layer that is made of
    layers, such as a transformer layer, even if a larger layer contains several of them; and at the end of a stage.
    A norm after a block belongs to the block.

    Args:
        networks: a single functional Keras model.

    Raises:
        ValueError: If there are fewer than two blocks.
    """
    try:
        (network,) = networks
        blocks = _blocks(network)
    except (ValueError, AttributeError):
        # There are several networks, or a subclassed model, which may do anything in its `call`.
        blocks = []
    if len(blocks) < 2:
        names = ", ".join(network.name for network in networks) or "none"
        raise ValueError(
            "Layer decay needs one backbone that is a functional Keras model with at least two blocks, for example one "
            f"from tfdml.backbones. Received: {names}. To set learning rates for groups of layers, use lr_multipliers."
        )
    return blocks


def composed_layers(layer):
    """Returns the layers inside a layer that are made of layers. A stack of such layers is replaced by its layers."""
    composed = []
    for each in inner_layers(layer):
        is_opened = isinstance(each, keras.Model) or _is_stack(each)
        composed += composed_layers(each) if is_opened else [each] * _is_composed(each)
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
    """Yields the layers of each part of the graph after which a block may end."""
    (images,), (output,) = network.inputs, network.outputs
    calls = calls_of(images, output)
    # Calls that no path leads around.
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
    """Splits layers into runs, each of which ends after a layer that is made of layers; the last may be empty."""
    runs = [[]]
    for layer in layers:
        if _is_stack(layer):
            runs += _parts(inner_layers(layer))
            # The stack itself may have variables, such as position embeddings.
            runs[-1].append(layer)
            runs.append([])
        elif _is_composed(layer):
            runs += [[layer], []]
        else:
            runs[-1].append(layer)
    return runs


def _is_stack(layer):
    """Whether a layer contains several composed layers of the same class, as a transformer does."""
    kinds = Counter(type(each) for each in inner_layers(layer) if _is_composed(each))
    return max(kinds.values(), default=0) > 1


def _is_composed(layer):
    inner = [each for each in layers_of(layer) if each is not layer and each.trainable_variables]
    return len(inner) > 1


@declared
def recompute_blocks(network: keras.Model) -> int:
    """Recomputes blocks of a network for gradients, which saves memory but costs time; returns the number of blocks.

    Blocks are layers that are made of layers, such as transformer layers. Keras' own `RematScope` fails in a traced
    step on TensorFlow, which does not accept keyword arguments there.

    Args:
        network: Keras model with variables. It must not draw random numbers, and its batch norm must be frozen.
    """
    blocks = [layer for layer in composed_layers(network) if layer.trainable_variables]
    if not blocks:
        raise ValueError(
            f"{network.name} has no blocks that are layers made of layers, such as transformer layers, so none can be "
            "recomputed. To save memory with any network, use pieces."
        )
    for block in blocks:
        check_repeatable(block, "recomputed blocks", "do not recompute blocks")
        block.call = _recomputed(block.call)
    return len(blocks)


def check_repeatable(model, what, instead):
    """Raises a ValueError if a network can return different results for the same image.

    The error names `what` needs equal results and what to do `instead`, both in words.
    """
    moving = [layer for layer in batch_norms(model) if moves_statistics(layer)]
    if moving:
        raise ValueError(
            f"{moving[0].name} normalizes with the statistics of a batch, which {what} would change. Freeze batch "
            f"norm with freeze_batch_norm='statistics' (--freeze_batch_norm=statistics on the command line), or "
            f"{instead}."
        )
    for layer in layers_of(model):
        if isinstance(layer, LossLayer):
            # It computes the input of the loss, once for the whole batch.
            continue
        draws = any(isinstance(value, keras.random.SeedGenerator) for value in vars(layer).values())
        if draws or layer.activity_regularizer is not None:
            does = "draws random numbers" if draws else "has an activity regularizer"
            raise ValueError(f"{layer.name} {does}, which does not work with {what}. To fix this, {instead}.")


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
