"""The backbone or model that a run starts from, and its weights."""

import dataclasses
import functools
import logging
import re
from pathlib import Path
from typing import Any

import keras
import numpy as np

from pipelines.operations import tf
from tfdml import registry
from tfdml.backbones import Backbone
from tfdml.backbones.backbone import MOMENTUM, follow_batches
from tfdml.backbones.borrowed import Borrowed
from tfdml.console.settings import NetworkSettings, names_with
from tfdml.console.startup import tensorflow_reason
from tfdml.files.checked import fingerprint
from tfdml.methods import EmbeddingModel
from tfdml.registry.arguments import saved_size, sides_of
from tfdml.run.directory.model_archive import damage_of, load_archive
from tfdml.run.directory.model_files import load_weights, ways_to_weights
from tfdml.run.directory.run_directory import RunDirectory

LOGGER = logging.getLogger(__name__)


def initial_backbone(network, tell, vector_dims=None):
    """Returns the backbone of `NetworkSettings` with its initial weights.

    If `tell`, it logs which weights were loaded. `vector_dims` is None if the dataset has images.
    """
    backbone = make_backbone(network.backbone, vector_dims)
    if network.initial_weights:
        loaded = load_weights(backbone, network.initial_weights)
        if tell:
            LOGGER.info(loaded)
    elif not backbone.pretrained:
        before = follow_batches(backbone)
        if before and tell:
            message = (
                "Batch normalization updates its moving statistics with momentum %s instead of %g, because the "
                "backbone starts from random weights."
            )
            LOGGER.info(message, MOMENTUM, before)
    return backbone


def make_backbone(spec, vector_dims=None):
    """Returns the backbone of a spec, which declares how pixels are scaled, or raises a ValueError."""
    backbone = registry.create("backbone", spec, vector_dims=vector_dims)
    if not isinstance(backbone, Backbone):
        raise ValueError(
            f"--backbone={spec} must be a tfdml.backbones.Backbone, which declares how pixels are scaled. Received: "
            f"{type(backbone).__name__}. Use Backbone(inputs, {{'output': outputs}}, mean=..., std=..., "
            "image_size=...)."
        )
    return backbone


def check_pretrained(backbone, network):
    """Raises a ValueError if a backbone that is not trained has random weights."""
    if not network.initial_weights and not backbone.pretrained:
        raise ValueError(
            f"--backbone={network.backbone} has random weights, and its features are useless without training. Set "
            f"--initial_weights: {ways_to_weights(backbone)}"
        )


def check_takes(backbone, size, spec):
    """Raises a ValueError if a backbone does not accept images of a size; its errors are clearer than a model's."""
    sides, usual = sides_of(size), backbone.image_size
    shape = (1, *sides, 3)
    try:
        # Check shapes first: TensorFlow crashes if a network shrinks small images to nothing.
        if min(sides) < min(sides_of(usual)) and 0 in backbone.compute_output_spec(keras.KerasTensor(shape)).shape:
            raise ValueError("Its feature maps would be empty.")
        backbone(np.zeros(shape, np.float32))
    except (tf.errors.InvalidArgumentError, ValueError) as error:
        such = f", such as --image_size={usual}, its default" if usual != size else ""
        raise ValueError(
            f"--backbone={spec} does not accept images of {sides.height} x {sides.width} pixels. Use another "
            f"size{such}. Reason: {_reason(error)}."
        ) from error


def _reason(error):
    """Returns the sentence of an error that states what is wrong, which Keras prints in bold."""
    if isinstance(error, tf.errors.OpError):
        return tensorflow_reason(error)
    *_, last = re.findall(r"\x1b\[1m([^\x1b]*)", str(error)) or [str(error)]
    return last.split(". ")[0].strip().rstrip(".")


# Keras layers that scale pixels: a network that starts with one accepts pixels from 0 to 255.
SCALING = (keras.layers.Rescaling, keras.layers.Normalization)


def backbone_of(network, preprocessing=None):
    """Returns a `Backbone` with the layers of a Keras network, or raises a ValueError if that is impossible.

    The network is functional or sequential and returns features `[B, h, w, c]` or `[B, tokens, c]`. If
    `preprocessing` is None, it must scale pixels itself.
    """
    try:
        inputs, shape = network.inputs, network.output_shape
    except AttributeError:
        # A subclassed model can do anything in its `call`.
        raise ValueError(f"it is a {type(network).__name__}, not a functional or sequential Keras model") from None
    if len(inputs) != 1 or not isinstance(shape, tuple) or len(shape) not in (3, 4):
        raise ValueError(
            f"its output has the shape {shape}, but features must have positions: [B, h, w, c] or [B, tokens, c]. Cut "
            "it before its pooling layer"
        )
    names = ("mean", "std", "channels", "image_size", "interpolation")
    scaling = {name: getattr(preprocessing, name) for name in names} if preprocessing else _own_scaling(network)
    if isinstance(network, keras.Sequential):
        # A sequential model has the graph of a functional model, but not its output.
        network = keras.Model(inputs[0], network.outputs[0], name=network.name)
    return Borrowed(network, "keras", scaling)


def _own_scaling(network):
    first = next((layer for layer in network.layers if not isinstance(layer, keras.layers.InputLayer)), None)
    if not isinstance(first, SCALING):
        raise ValueError(
            "it does not specify how pixels are scaled. Save it as a tfdml model with preprocessing: "
            "tfdml.Single(network, preprocessing=tfdml.Preprocessing(image_size=..., mean=..., std=...))"
        )
    height, width = network.input_shape[1:3]
    if not (height and width):
        raise ValueError("it does not specify the size of its input images")
    return {"mean": (0.0,) * 3, "std": (1.0,) * 3, "channels": "rgb", "image_size": saved_size(height, width)}


@dataclasses.dataclass(frozen=True)
class InitialModel:
    """The model of `--initial_model`: a new model gets its backbone and weights."""

    model: keras.Model
    path: str

    @classmethod
    def of(cls, path):
        """Loads a `.keras` file, or the best model of a run directory."""
        file = _file(path)
        if damage := damage_of(file):
            raise ValueError(f"--initial_model={path}: {file} is not a Keras model, or is damaged: {damage}.")
        model, first = load_archive(file), _first_fingerprint(file)
        # The initial model is built again at the end of a run.
        if fingerprint(file) != first:
            raise ValueError(f"--initial_model={path}: {file} has changed since this command started. Repeat it.")
        return cls(model, str(path))

    def new_backbone(self):
        """Returns a new backbone like the model's, with its weights."""
        of_method = isinstance(self.model, EmbeddingModel)
        before = self.model.backbone if of_method else self.model
        if not isinstance(before, Backbone):
            try:
                before = backbone_of(before, self.model.preprocessing if of_method else None)
            except ValueError as error:
                why = f"the backbone of {_in_words(self.model)} cannot be used: {str(error).rstrip('.')}"
                raise ValueError(f"--initial_model={self.path}: {why}.") from None
        # The new run determines the precision and which layers are trainable.
        config = {name: value for name, value in before.get_config().items() if name not in ("dtype", "trainable")}
        backbone = type(before).from_config(config)
        backbone.set_weights(before.get_weights())
        backbone.pretrained = True
        return backbone

    def hand_over(self, model):
        """Copies all weights to a model with `new_backbone` if method and sizes are the same; returns a message."""
        shapes = [[weight.shape for weight in each.weights] for each in (model, self.model)]
        if type(model) is type(self.model) and shapes[0] == shapes[1]:
            model.set_weights(self.model.get_weights())
            return f"--initial_model={self.path}: loaded all weights of {_in_words(self.model)}."
        return f"--initial_model={self.path}: loaded only the weights of the backbone of {_in_words(self.model)}."


def check_initial_model(network: NetworkSettings, recorded: dict[str, Any]):
    """Raises a ValueError if other flags contradict `--initial_model`, or if its file is not the recorded one."""
    if not network.initial_model:
        return
    for name in names_with(is_in_initial_model=True):
        value = getattr(network, name)
        if value != getattr(NetworkSettings, name):
            raise ValueError(f"--initial_model includes a backbone with its weights. Remove --{name}={value}.")
    now = initial_model_record(network)
    if recorded.get("initial_model", now["initial_model"]) != now["initial_model"]:
        raise ValueError(
            f"--initial_model={network.initial_model} has changed since the run was started. Restore the file, or "
            "train again in another --run_dir."
        )


def initial_model_record(network: NetworkSettings) -> dict[str, Any]:
    """Returns a record that identifies the file of `--initial_model`, or an empty one."""
    return {"initial_model": _first_fingerprint(_file(network.initial_model))} if network.initial_model else {}


def initial_weights_record(network: NetworkSettings) -> dict[str, Any]:
    """Returns a record that identifies the file of `--initial_weights`, or an empty one.

    Weights that a backbone downloads, or that come with tfdml, have a name and no file.
    """
    path = network.initial_weights
    return {"initial_weights": _first_fingerprint(Path(path))} if path and Path(path).is_file() else {}


# The fingerprint of a file when this process first read it.
_first_fingerprint = functools.cache(fingerprint)


def _file(path):
    """Returns the model file at a path; raises an error if it does not exist."""
    if not Path(path).exists():
        raise FileNotFoundError(f"--initial_model={path} does not exist. Expected a .keras file or a run directory.")
    return RunDirectory(path).model_file("best") if Path(path).is_dir() else Path(path)


def _in_words(model):
    if not isinstance(model, EmbeddingModel):
        return f"a {type(model).__name__}"
    backbone = f" with the backbone {model.backbone.name}" if model.backbone else " without a backbone of its own"
    return f"a {type(model).__name__}{backbone}"
