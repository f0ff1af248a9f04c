"""The low-rank changes of LoRA in a file of their own, a thousandth of the network."""

from pathlib import Path

import h5py
import keras
import numpy as np

from tfdml.files.checked import BROKEN, check_datasets, vacated
from tfdml.layers.lora import adapted_layers, enable_lora
from tfdml.registry.fields import declared

MATRICES = ("lora_kernel_a", "lora_kernel_b")


@declared
def save_adapter(network: keras.Model, path: str | Path) -> None:
    """Writes what LoRA has learned, such as `adapter.weights.h5`, without the network's weights.

    Args:
        network: Keras model after `enable_lora`.
        path: the file.
    """
    layers, path = adapted_layers(network), Path(path)
    if not layers:
        raise ValueError(f"{network.name} has no changes of LoRA; call enable_lora(network, rank) first.")
    unfinished = path.with_name(f".writing-{path.name}")
    with h5py.File(vacated(unfinished), "w") as file:
        file.attrs["rank"] = layers[0].lora_kernel_b.shape[0]
        for number, layer in enumerate(layers):
            for name in MATRICES:
                file[f"{number:05d}/{name}"] = keras.ops.convert_to_numpy(getattr(layer, name))
    unfinished.rename(path)


@declared
def load_adapter(network: keras.Model, path: str | Path) -> int:
    """Gives a network the changes in a file of `save_adapter`; returns the number of layers that have them.

    Args:
        network: Keras model with the weights that training began with, before or after `enable_lora`.
        path: the file.
    """
    try:
        with h5py.File(path) as file:
            check_datasets(file, Path(path).stat().st_size)
            rank = int(file.attrs["rank"])
            found = [[np.asarray(file[place][name][...], np.float32) for name in MATRICES] for place in sorted(file)]
    except BROKEN as error:
        raise ValueError(f"{path} cannot be read as changes of LoRA: {' '.join(str(error).split())}.") from None
    if not adapted_layers(network):
        enable_lora(network, rank)
    layers = adapted_layers(network)
    wanted = [[tuple(getattr(layer, name).shape) for name in MATRICES] for layer in layers]
    if wanted != [[each.shape for each in matrices] for matrices in found]:
        raise ValueError(
            f"{path} has changes of rank {rank} for {len(found)} layers, which do not fit those of {network.name}: "
            f"expected {len(wanted)} of the shapes {wanted[0]} and so on."
        )
    for layer, matrices in zip(layers, found, strict=True):
        for name, values in zip(MATRICES, matrices, strict=True):
            getattr(layer, name).assign(values)
    return len(layers)
