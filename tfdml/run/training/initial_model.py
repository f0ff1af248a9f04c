"""The backbone or model that a run starts from, and its weights."""

import dataclasses
import functools
import logging
import re
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

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
    """Returns the backbone of `NetworkSettings` with its first weights.

    With `tell`, it logs which weights were loaded. The dataset has images, unless there are `vector_dims`.
    """
    backbone = make_backbone(network.backbone, vector_dims)
    if network.initial_weights:
        loaded = load_weights(backbone, network.initial_weights)
        if tell:
            LOGGER.info(loaded)
    elif not backbone.pretrained:
        before = follow_batches(backbone)
        if before and tell:
            message = "Batch norm of random weights moves its statistics with momentum %s, not %g."
            LOGGER.info(message, MOMENTUM, before)
    return backbone


def make_backbone(spec, vector_dims=None):
    """Returns the backbone of a spec, which declares how pixels are scaled, or raises a ValueError."""
    backbone = registry.create("backbone", spec, vector_dims=vector_dims)
    if not isinstance(backbone, Backbone):
        raise ValueError(
            f"--backbone={spec}: {type(backbone).__name__} must be a tfdml.backbones.Backbone, which "
            "declares how pixels are scaled: Backbone(inputs, {'output': outputs}, mean=..., std=..., image_size=...)."
        )
    return backbone


def check_pretrained(backbone, network):
    """Raises a ValueError if a backbone would have random weights, and nothing trains it."""
    if not network.initial_weights and not backbone.pretrained:
        raise ValueError(
            f"--backbone={network.backbone} has random weights, whose features are of no use without training. Give "
            f"weights by --initial_weights: {ways_to_weights(backbone)}"
        )


def check_takes(backbone, size, spec):
    """Raises a ValueError if a backbone alone, whose errors are clearer, does not accept images of a size."""
    sides, usual = sides_of(size), backbone.image_size
    shape = (1, *sides, 3)
    try:
        # First by shapes: of smaller images than its own a network may leave nothing, and TensorFlow then crashes.
        if min(sides) < min(sides_of(usual)) and 0 in backbone.compute_output_spec(keras.KerasTensor(shape)).shape:
            raise ValueError("Nothing would be left of them.")
        backbone(np.zeros(shape, np.float32))
    except (tf.errors.InvalidArgumentError, ValueError) as error:
        such = f", such as {usual}, its own" if usual != size else ""
        raise ValueError(
            f"--backbone={spec} does not take images of {sides.height} x {sides.width} pixels; give another "
            f"--image_size{such}. It says: {_reason(error)}."
        ) from error


def _reason(error):
    """Returns the sentence of an error that states what is wrong; Keras prints it in bold."""
    if isinstance(error, tf.errors.OpError):
        return tensorflow_reason(error)
    *_, last = re.findall(r"\x1b\[1m([^\x1b]*)", str(error)) or [str(error)]
    return last.split(". ")[0].strip().rstrip(".")


# Layers of Keras that scale pixels: a network that begins with one takes pixels from 0 to 255.
SCALING = (keras.layers.Rescaling, keras.layers.Normalization)


def backbone_of(network, preprocessing=None):
    """Returns a `Backbone` with the layers of a Keras network; a ValueError says why it cannot be one.

    The functional or sequential network returns features `[B, h, w, c]` or `[B, tokens, c]`. Without the
    `Preprocessing` that it was trained with, it scales pixels itself.
    """
    try:
        inputs, shape = network.inputs, network.output_shape
    except AttributeError:
        # Of a class of its own, which may do anything in its `call`.
        raise ValueError(f"it is a {type(network).__name__}, no functional or sequential Keras model") from None
    if len(inputs) != 1 or not isinstance(shape, tuple) or len(shape) not in (3, 4):
        raise ValueError(
            f"it gives {shape}, no features with positions, [B, h, w, c] or [B, tokens, c]; cut it before its pooling"
        )
    names = ("mean", "std", "channels", "image_size", "interpolation")
    scaling = {name: getattr(preprocessing, name) for name in names} if preprocessing else _own_scaling(network)
    if isinstance(network, keras.Sequential):
        # It has the graph of one, but not its output.
        network = keras.Model(inputs[0], network.outputs[0], name=network.name)
    return Borrowed(network, "keras", scaling)


def _own_scaling(network):
    first = next((layer for layer in network.layers if not isinstance(layer, keras.layers.InputLayer)), None)
    if not isinstance(first, SCALING):
        raise ValueError(
            "nothing says how its pixels are scaled; save it in a model of a method, whose preprocessing does: "
            "tfdml.Single(network, preprocessing=tfdml.Preprocessing(image_size=..., mean=..., std=...))"
        )
    height, width = network.input_shape[1:3]
    if not (height and width):
        raise ValueError("it does not say for images of which size it is")
    return {"mean": (0.0,) * 3, "std": (1.0,) * 3, "channels": "rgb", "image_size": saved_size(height, width)}


@dataclasses.dataclass(frozen=True)
class InitialModel:
    """A model from the file of `--initial_model`, whose backbone and weights a new model takes over."""

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
        of_method = isinstance(self.model, EmbeddingModel)
        before = self.model.backbone if of_method else self.model
        if not isinstance(before, Backbone):
            try:
                before = backbone_of(before, self.model.preprocessing if of_method else None)
            except ValueError as error:
                why = f"the backbone of {_in_words(self.model)} cannot be taken: {str(error).rstrip('.')}"
                raise ValueError(f"--initial_model={self.path}: {why}.") from None
        # Precision and what trains are those of the new run.
        config = {name: value for name, value in before.get_config().items() if name not in ("dtype", "trainable")}
        backbone = type(before).from_config(config)
        backbone.set_weights(before.get_weights())
        backbone.pretrained = True
        return backbone

    def hand_over(self, model):
        """Gives a model with `new_backbone` all weights, if methods and sizes are the same; returns a line on it."""
        shapes = [[weight.shape for weight in each.weights] for each in (model, self.model)]
        if type(model) is type(self.model) and shapes[0] == shapes[1]:
            model.set_weights(self.model.get_weights())
            return f"--initial_model={self.path}: all weights of {_in_words(self.model)}."
        return f"--initial_model={self.path}: the weights of the backbone, not the others, of {_in_words(self.model)}."


def check_initial_model(network: NetworkSettings, recorded: dict[str, Any]):
    """Raises a ValueError if flags do not fit to `--initial_model`, or if its file is not the recorded one."""
    if not network.initial_model:
        return
    for name in names_with(is_in_initial_model=True):
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
    """Returns the record by which the file of `--initial_model` is recognized; empty without one."""
    return {"initial_model": _first_fingerprint(_file(network.initial_model))} if network.initial_model else {}


# Of a file as it was when this process first looked at it.
_first_fingerprint = functools.cache(fingerprint)


def _file(path):
    """Returns the file that a path means; an error if there is none."""
    if not Path(path).exists():
        raise FileNotFoundError(f"--initial_model={path} does not exist: expected a .keras file, or a run directory.")
    return RunDirectory(path).model_file("best") if Path(path).is_dir() else Path(path)


def _in_words(model):
    if not isinstance(model, EmbeddingModel):
        return f"a {type(model).__name__}"
    backbone = f" with the backbone {model.backbone.name}" if model.backbone else " without a backbone of its own"
    return f"a {type(model).__name__}{backbone}"
