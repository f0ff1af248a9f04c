"""The model that a run starts from, `--initial_model`."""

import dataclasses
import functools
from pathlib import Path
from typing import Any

import keras

from tfdml.backbones import Backbone
from tfdml.console.settings import NetworkSettings
from tfdml.files.checked import fingerprint
from tfdml.methods import EmbeddingModel
from tfdml.run.directory.model_archive import damage_of, load_archive
from tfdml.run.directory.run_directory import RunDirectory
from tfdml.run.training.network_backbone import backbone_of


@dataclasses.dataclass(frozen=True)
class InitialModel:
    """A model from a file whose backbone and weights a new model takes over.

    Args:
        model: the Keras model.
        path: value of `--initial_model`, for messages.
    """

    model: keras.Model
    path: str

    @classmethod
    def of(cls, path):
        """Loads the model of a `.keras` file, or the best one of a run directory."""
        file = _file(path)
        if damage := damage_of(file):
            raise ValueError(f"--initial_model={path}: {file} is not a Keras model, or is damaged: {damage}.")
        model, first = load_archive(file), _first_fingerprint(file)
        # The untrained model is made once more at the end of a run.
        if fingerprint(file) != first:
            raise ValueError(f"--initial_model={path}: {file} has changed since this command began; repeat it.")
        return cls(model, str(path))

    def new_backbone(self):
        """Returns a new backbone like the model's, with its weights."""
        found = self._backbone()
        # Precision and what trains are those of the new run.
        config = {name: value for name, value in found.get_config().items() if name not in ("dtype", "trainable")}
        backbone = type(found).from_config(config)
        backbone.set_weights(found.get_weights())
        backbone.pretrained = True
        return backbone

    def _backbone(self):
        own = isinstance(self.model, EmbeddingModel)
        found = self.model.backbone if own else self.model
        if isinstance(found, Backbone):
            return found
        try:
            return backbone_of(found, self.model.preprocessing if own else None)
        except ValueError as error:
            why = f"the backbone of {_told(self.model)} cannot be taken: {str(error).rstrip('.')}"
            raise ValueError(f"--initial_model={self.path}: {why}.") from None

    def hand_over(self, model):
        """Gives a new model all weights, where it is of the same method and sizes; returns a line that says so.

        Args:
            model: the model that has `new_backbone`, with variables.
        """
        shapes = [[weight.shape for weight in each.weights] for each in (model, self.model)]
        if type(model) is type(self.model) and shapes[0] == shapes[1]:
            model.set_weights(self.model.get_weights())
            return f"--initial_model={self.path}: all weights of {_told(self.model)}."
        return f"--initial_model={self.path}: the weights of the backbone, not the others, of {_told(self.model)}."


def check_initial_model(network: NetworkSettings, recorded: dict[str, Any]):
    """Raises a ValueError if flags do not fit to `--initial_model`, or its file is another one than was recorded.

    Args:
        network: `NetworkSettings`.
        recorded: what `initial_model_record` gave when the run began; empty: nothing is known.
    """
    if not network.initial_model:
        return
    for name in ("backbone", "initial_weights"):
        value = getattr(network, name)
        if value != getattr(NetworkSettings, name):
            raise ValueError(f"--initial_model brings a backbone with its weights; leave out --{name}={value}.")
    now = initial_model_record(network)
    if recorded.get("initial_model", now["initial_model"]) != now["initial_model"]:
        raise ValueError(
            f"--initial_model={network.initial_model} is another model than when the run began. Restore it, or train "
            "again in another --run_dir."
        )


def initial_model_record(network: NetworkSettings) -> dict[str, Any]:
    """Returns the record of `--initial_model`, by which its file is known again; empty without one."""
    return {"initial_model": _first_fingerprint(_file(network.initial_model))} if network.initial_model else {}


@functools.cache
def _first_fingerprint(file):
    return fingerprint(file)


def _file(path):
    """Returns the file that a path means; an error if there is none."""
    if not Path(path).exists():
        raise FileNotFoundError(f"--initial_model={path} does not exist: expected a .keras file, or a run directory.")
    return RunDirectory(path).model_file("best") if Path(path).is_dir() else Path(path)


def _told(model):
    """Returns what a model is, in words."""
    if not isinstance(model, EmbeddingModel):
        return f"a {type(model).__name__}"
    backbone = f" with the backbone {model.backbone.name}" if model.backbone else " without a backbone of its own"
    return f"a {type(model).__name__}{backbone}"
