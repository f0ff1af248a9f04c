"""LoRA: fine-tuning with low-rank changes of a frozen network."""

import keras

from tfdml.registry.arguments import Count
from tfdml.registry.fields import declared
from tfdml.runtime.keras_internals import layers_of

DENSE = (keras.layers.Dense, keras.layers.EinsumDense)


@declared
def enable_lora(network: keras.Model, rank: Count) -> int:
    """Freezes a network and adds trainable low-rank changes to its dense layers and 1 × 1 convolutions.

    The change of a matrix `[c, d]` is a product `[c, rank] [rank, d]` that starts at zero: Hu et al., LoRA: Low-Rank
    Adaptation of Large Language Models, 2022. Keras adds it to the matrix when the network is saved. Batch norm runs
    in inference mode.

    Args:
        network: Keras model with weights.
        rank: rank of the changes.

    Returns:
        The number of layers with such a change.
    """
    layers = [layer for layer in layers_of(network) if _is_matrix(layer)]
    if not layers:
        raise ValueError(
            f"LoRA changes dense layers and 1 × 1 convolutions, but {network.name} has none. Fine-tune the whole "
            "network without LoRA, or set lower learning rates for its first layers."
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
    """Returns the layers of a network with low-rank changes, always in the same order."""
    adapted = [layer for layer in layers_of(network) if _is_matrix(layer) and layer.lora_enabled]
    return list({id(layer): layer for layer in adapted}.values())


def _is_matrix(layer):
    is_pointwise = isinstance(layer, keras.layers.Conv2D) and set(layer.kernel_size) == {1} and layer.groups == 1
    # Keras subclasses `Conv2D` for none of its other convolutions.
    return layer.built and (isinstance(layer, DENSE) or is_pointwise)
