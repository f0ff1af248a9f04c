"""Loads weights files of Keras by the names of layers."""

import dataclasses
import re
import tempfile
from pathlib import Path

import h5py

from tfdml.files.checked import check_datasets

# Names that a message lists at most.
SHOWN = 5


@dataclasses.dataclass
class Report:
    """The result of loading a file by name.

    Args:
        loaded: number of loaded parameters.
        missing: names of layers of the model that are not in the file.
        unexpected: names of layers of the file that are not in the model.
    """

    loaded: int
    missing: list
    unexpected: list

    def __str__(self):
        lists = {"missing in the file": self.missing, "not in the backbone": self.unexpected}
        return f"{self.loaded} parameters loaded" + "".join(f"; {key}: {_some(names)}" for key, names in lists.items())


def load_by_name(model, path):
    """Loads a `.weights.h5` file into the layers with the same names, and returns a `Report`.

    A parameter of another shape is an error, and so is a file with none of the model's layers; the model is then
    unchanged.
    """
    with tempfile.TemporaryDirectory() as folder:
        # The model's own file shows where Keras stores each of its parameters.
        own = Path(folder) / "own.weights.h5"
        model.save_weights(own)
        with h5py.File(path) as source, h5py.File(own, "r+") as target:
            check_datasets(source, Path(path).stat().st_size)
            found, wanted = _parameters(source), _parameters(target)
            shared = [name for name in wanted if name in found]
            _check(shared, found, wanted)
            for name in shared:
                wanted[name][...] = found[name][...]
            report = Report(len(shared), _layers(wanted, without=found), _layers(found, without=wanted))
        model.load_weights(own)
    return report


def _check(shared, found, wanted):
    if not shared:
        raise ValueError(f"it has none of the layers {_some(_layers(wanted))}, but {_some(_layers(found))}.")
    wrong = [name for name in shared if found[name].shape != wanted[name].shape]
    if wrong:
        layer, first = wrong[0].rsplit("/", 1)[0], wrong[0]
        raise ValueError(
            f"{layer} has a parameter of shape {wanted[first].shape}, in the file of shape {found[first].shape}; "
            f"{len(wrong)} of {len(shared)} parameters have other shapes."
        )


def _parameters(file):
    """Returns name to dataset; a name joins the layers' names and the parameter's number by slashes."""
    parameters = {}

    def visit(path, item):
        *groups, number = path.split("/")
        if isinstance(item, h5py.Dataset) and groups[-1:] == ["vars"]:
            names = [_name(file, groups[:end]) for end in range(1, len(groups))]
            parameters["/".join([*filter(None, names), number])] = item

    file.visititems(visit)
    return dict(sorted(parameters.items()))


def _name(file, groups):
    """Returns the name of the layer that a group belongs to, or the group's own."""
    place = groups[-1]
    if place == "layers":
        return ""
    variables = file.get("/".join([*groups, "vars"]))
    name = place if variables is None else variables.attrs.get("name", place)
    # Default names of Keras count the layers of a process; those of groups count the layers of the file.
    return place if re.sub(r"_\d+$", "", name) == re.sub(r"_\d+$", "", place) else name


def _layers(parameters, without=()):
    return list(dict.fromkeys(name.rsplit("/", 1)[0] for name in parameters if name not in without))


def _some(names):
    rest = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return (", ".join(names[:SHOWN]) or "nothing") + rest
