"""Loads Keras weights files by the names of layers, and saves and loads low-rank adapters."""

import dataclasses
import re
import tempfile
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
    """Saves the low-rank adapter that LoRA has trained, without the weights of the network.

    Args:
        network: Keras model after `tfdml.backbones.enable_lora`.
        path: String or path. File to write, such as `"adapter.weights.h5"`.

    Raises:
        ValueError: If the network has no adapter.

    Example:

    ```python
    network = keras.Sequential([keras.Input((8,)), keras.layers.Dense(8)])
    tfdml.backbones.enable_lora(network, rank=2)
    tfdml.backbones.save_adapter(network, "adapter.weights.h5")
    ```
    """
    layers, path = adapted_layers(network), Path(path)
    if not layers:
        raise ValueError(f"{network.name} has no LoRA adapter. Call enable_lora(network, rank) first.")
    unfinished = path.with_name(f".writing-{path.name}")
    with h5py.File(vacated(unfinished), "w") as file:
        file.attrs["rank"] = layers[0].lora_kernel_b.shape[0]
        for number, layer in enumerate(layers):
            for name in MATRICES:
                file[f"{number:05d}/{name}"] = keras.ops.convert_to_numpy(getattr(layer, name))
    unfinished.rename(path)


@declared
def load_adapter(network: keras.Model, path: str | Path) -> int:
    """Loads a low-rank adapter that `save_adapter` wrote into a network.

    Args:
        network: Keras model with the same pretrained weights as before training. If you have not called `enable_lora`,
            this function calls it.
        path: String or path. File of the adapter.

    Returns:
        Number of layers that have an adapter.

    Raises:
        ValueError: If the file is damaged, or if the adapter does not fit the network.

    Example:

    ```python
    network = keras.Sequential([keras.Input((8,)), keras.layers.Dense(8)])
    tfdml.backbones.enable_lora(network, rank=2)
    tfdml.backbones.save_adapter(network, "adapter.weights.h5")
    fresh = keras.models.clone_model(network)
    tfdml.backbones.load_adapter(fresh, "adapter.weights.h5")  # 1
    ```
    """
    try:
        with h5py.File(path) as file:
            check_datasets(file, Path(path).stat().st_size)
            rank = int(file.attrs["rank"])
            stored = [[np.asarray(file[place][name][...], np.float32) for name in MATRICES] for place in sorted(file)]
    except BROKEN as error:
        raise ValueError(f"{path} cannot be read as a LoRA adapter: {' '.join(str(error).split())}.") from None
    if not adapted_layers(network):
        enable_lora(network, rank)
    layers = adapted_layers(network)
    wanted = [[tuple(getattr(layer, name).shape) for name in MATRICES] for layer in layers]
    if wanted != [[each.shape for each in matrices] for matrices in stored]:
        raise ValueError(
            f"The LoRA adapter {path} does not fit {network.name}. Expected {len(wanted)} layers with the shapes "
            f"{wanted[0]} and so on. Received: {len(stored)} layers of rank {rank}."
        )
    for layer, matrices in zip(layers, stored, strict=True):
        for name, values in zip(MATRICES, matrices, strict=True):
            getattr(layer, name).assign(values)
    return len(layers)


# Maximum number of names in a message.
SHOWN = 5


@dataclasses.dataclass
class Report:
    """The result of loading a file by name: the number of `loaded` parameters and the names of layers.

    `missing` are layers of the model that are not in the file. `unexpected` are layers of the file that are not in the
    model.
    """

    loaded: int
    missing: list
    unexpected: list

    def __str__(self):
        lists = {"missing in the file": self.missing, "not in the backbone": self.unexpected}
        return f"{self.loaded} parameters loaded" + "".join(f"; {key}: {_some(names)}" for key, names in lists.items())


def load_by_name(model, path):
    """Loads a `.weights.h5` file into the layers with the same names and returns a `Report`.

    If a parameter has another shape, or if the file has none of the model's layers, it raises a ValueError and does not
    change the model.
    """
    with tempfile.TemporaryDirectory() as folder:
        # A file of the model itself shows where Keras stores each parameter.
        copy = Path(folder) / "own.weights.h5"
        model.save_weights(copy)
        with h5py.File(path) as source, h5py.File(copy, "r+") as target:
            check_datasets(source, Path(path).stat().st_size)
            stored, wanted = _parameters(source), _parameters(target)
            shared = [name for name in wanted if name in stored]
            if not shared:
                raise ValueError(
                    f"it has none of the backbone's layers. Expected {_some(_layers(wanted))}. Received: "
                    f"{_some(_layers(stored))}."
                )
            if wrong := [name for name in shared if stored[name].shape != wanted[name].shape]:
                raise ValueError(
                    f"{wrong[0].rsplit('/', 1)[0]} has a parameter of another shape. Expected "
                    f"{wanted[wrong[0]].shape}. Received: {stored[wrong[0]].shape}. {len(wrong)} of "
                    f"{len(shared)} parameters have other shapes."
                )
            for name in shared:
                wanted[name][...] = stored[name][...]
            report = Report(len(shared), _layers(wanted, without=stored), _layers(stored, without=wanted))
        model.load_weights(copy)
    return report


def _parameters(file):
    """Returns a dictionary of datasets. A name joins the names of layers and a parameter's number with slashes."""
    parameters = {}

    def visit(path, item):
        *groups, number = path.split("/")
        if isinstance(item, h5py.Dataset) and groups[-1:] == ["vars"]:
            names = [_name(file, groups[:end]) for end in range(1, len(groups))]
            parameters["/".join([*filter(None, names), number])] = item

    file.visititems(visit)
    return dict(sorted(parameters.items()))


def _name(file, groups):
    """Returns the name of the layer that a group belongs to, or the name of the group."""
    place = groups[-1]
    if place == "layers":
        return ""
    variables = file.get("/".join([*groups, "vars"]))
    name = place if variables is None else variables.attrs.get("name", place)
    # Keras' default names of layers count the layers of a process, but names of groups count the layers of a file.
    return place if re.sub(r"_\d+$", "", name) == re.sub(r"_\d+$", "", place) else name


def _layers(parameters, without=()):
    return list(dict.fromkeys(name.rsplit("/", 1)[0] for name in parameters if name not in without))


def _some(names):
    rest = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return (", ".join(names[:SHOWN]) or "nothing") + rest
