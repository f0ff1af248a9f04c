"""Gradient checkpointing: blocks that gradients compute again, in place of keeping what is in them."""

import keras

from tfdml.layers.blocks import composed_layers
from tfdml.layers.frozen_batch_norm import batch_norms, moves_statistics
from tfdml.registry.fields import declared
from tfdml.runtime.keras_internals import layers_of


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

    Args:
        model: Keras model or layer.
        what: what needs the same result, in words.
        instead: what to do without it, in words.
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
    """Returns a layer's `call` whose gradients compute it again."""

    def again(*args, **kwargs):
        leaves = keras.tree.flatten((args, kwargs))
        places = [place for place, leaf in enumerate(leaves) if _has_gradient(leaf)]

        def of_tensors(*tensors):
            filled = list(leaves)
            for place, tensor in zip(places, tensors, strict=True):
                filled[place] = tensor
            args_again, kwargs_again = keras.tree.pack_sequence_as((args, kwargs), filled)
            return call(*args_again, **kwargs_again)

        return keras.remat(of_tensors)(*(leaves[place] for place in places))

    return again


def _has_gradient(leaf):
    return keras.ops.is_tensor(leaf) and "float" in keras.backend.standardize_dtype(leaf.dtype)
