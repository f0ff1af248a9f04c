"""The stages of a network: the last layer of each resolution, found in its graph."""

import math
from collections import Counter

import keras

from tfdml.runtime.keras_internals import calls_of

# So large that what padding adds or takes does not hide by how much a network reduces images.
SIDE, TIMES = 1024, 4


def stages(images, output, *, whole=False):
    """Returns name to Keras tensor of a network's stages, from shallow to deep.

    `stageN` is the last layer whose features have 1 / 2^N of the images' sides and through which all paths to the
    output lead. Where paths lead around all such layers, as in NASNet with its links from cell to cell, it is one with
    the fewest around it: the last of those that join the most. Layers that only pad are none.

    Args:
        images: Keras input `[B, H, W, c]` of the network; with another shape it has no stages.
        output: Keras tensor that it ends with.
        whole: whether the layers of the images' own resolution are a stage, too, `stage0`.
    """
    if len(images.shape) != 4:
        return {}
    calls, found = calls_of(images, output), {}
    sides, side = _sides(calls, images)
    for call, features, around in paths_around(calls, output):
        before = [sides[id(tensor)] or 0 for tensor in call.input_tensors]
        halvings = _halvings(side, sides[id(features)])
        if halvings is None or halvings < (0 if whole else 1) or (around and len(before) == 1):
            continue
        if sides[id(features)] > max(before, default=side):
            continue
        rank = (around, -len(before) if around else 0)
        if rank <= found.get(halvings, (rank,))[0]:
            # At the end again: from shallow to deep.
            found.pop(halvings, None)
            found[halvings] = rank, features
    deepest = max((halvings for halvings, (rank, _) in found.items() if not rank[0]), default=0)
    return {f"stage{halvings}": features for halvings, (_, features) in found.items() if halvings <= deepest}


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
    own = images.shape[1:3]
    height, width = (SIDE if side is None else TIMES * side for side in own)
    enlarged = keras.KerasTensor((images.shape[0], height, width, images.shape[3]), dtype=images.dtype)
    try:
        tensors, side = _inferred(calls, {id(images): enlarged}), height
    except Exception:  # Backends raise their own. A network may take one size alone, as one with tokens.
        tensors = {id(tensor): tensor for call in calls for tensor in call.outputs}
        side = own[0]
    return {key: tensor.shape[1] if len(tensor.shape) == 4 else None for key, tensor in tensors.items()}, side


def _inferred(calls, tensors):
    """Returns what each tensor of a graph is with other inputs, by its id."""
    for call in calls:
        if call.input_tensors:
            args, kwargs = call.arguments.fill_in(tensors)
            outputs = keras.tree.flatten(call.operation.compute_output_spec(*args, **kwargs))
            tensors |= {id(old): new for old, new in zip(call.outputs, outputs, strict=True)}
    return tensors


def _halvings(side, features):
    """Returns how often a side was halved; None without positions, or if one is left."""
    return None if not side or not features or features == 1 else round(math.log2(side / features))
