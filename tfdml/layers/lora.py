"""LoRA: fine-tuning by matrices of low rank beside those of a frozen network."""

import keras

from tfdml.registry.arguments import Count
from tfdml.registry.fields import declared
from tfdml.runtime.keras_internals import layers_of

DENSE = (keras.layers.Dense, keras.layers.EinsumDense)


@declared
def enable_lora(network: keras.Model, rank: Count) -> int:
    """Freezes a network but for low-rank changes of its dense layers and 1 × 1 convolutions; returns their number.

    The change of a matrix `[c, d]` is a product `[c, rank] [rank, d]`, which begins at zero: Hu et al., LoRA: Low-Rank
    Adaptation of Large Language Models, 2022. Keras adds it to the matrix when the network is saved. Batch norm is as
    in inference.

    Args:
        network: Keras model with weights.
        rank: rank of the changes.
    """
    layers = [layer for layer in layers_of(network) if _is_matrix(layer)]
    if not layers:
        raise ValueError(
            f"LoRA changes dense layers and 1 × 1 convolutions; {network.name} has none. Fine-tune all of it, or give "
            "its first layers lower rates."
        )
    for layer in layers_of(network):
        if isinstance(layer, keras.layers.BatchNormalization):
            layer.trainable = False
    for variable in network.variables:
        variable.trainable = False
    for layer in layers:
        layer.enable_lora(rank)
    return len(layers)


def adapted_layers(network):
    """Returns the layers of a network that have low-rank changes, always in the same order."""
    adapted = [layer for layer in layers_of(network) if _is_matrix(layer) and layer.lora_enabled]
    return list({id(layer): layer for layer in adapted}.values())


def _is_matrix(layer):
    is_pointwise = isinstance(layer, keras.layers.Conv2D) and set(layer.kernel_size) == {1} and layer.groups == 1
    # Keras subclasses `Conv2D` for none of its other convolutions.
    return layer.built and (isinstance(layer, DENSE) or is_pointwise)
