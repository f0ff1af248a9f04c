"""Backbones of keras-hub and keras-cv, and any network of Keras."""

import importlib
from collections.abc import Mapping
from functools import partial
from typing import Any, Literal, Unpack

import keras

from tfdml.backbones.backbone import Backbone
from tfdml.backbones.drop_path import working_drop_path
from tfdml.layers.norms import layers_in
from tfdml.layers.tokens import TokenFeatures
from tfdml.registry.arguments import ModelArguments, TokenKind

# keras-hub requires tensorflow-text, and that `tensorflow`, which must not be installed over `tensorflow-cpu`.
INSTALL = {
    "keras_hub": (
        "the extra 'hub'. With the extra 'gpu': pip install 'tfdml[hub]'. With the extra 'cpu', where that would "
        "install tensorflow over tensorflow-cpu: pip install --no-deps 'keras-hub~=0.32.0' 'kagglehub!=1.0.1' "
        "kagglesdk==0.1.28 sentencepiece tokenizers regex rich tqdm pyyaml."
    ),
    "keras_cv": "the extra 'keras-cv': pip install 'tfdml[keras-cv]'.",
}


@keras.saving.register_keras_serializable(package="tfdml")
class Borrowed(Backbone):
    """A backbone of keras-hub or keras-cv, created from a preset with its weights, or a network of Keras' layers.

    Endpoints are the levels of its feature pyramid, if it has one, such as `P2` at a quarter of the resolution,
    `output`, and the stages of its graph.

    Args:
        network: the package's backbone, from images to one tensor.
        package: `keras_hub` or `keras_cv`, which is imported before the network is loaded from a file; or `keras`.
        preprocessing: `mean`, `std` and `image_size`, see `Backbone`.
        features: what stands for an image in a transformer, see `tfdml.layers.TokenFeatures`; None: all of its output.
        prefix: number of tokens before those of patches.
    """

    pretrained = True

    def __init__(
        self,
        network: keras.Model,
        package: Literal["keras_hub", "keras_cv", "keras"],
        preprocessing: Mapping[str, Any],
        features: TokenKind | None = None,
        prefix: int = 1,
        **kwargs: Unpack[ModelArguments],
    ):
        # Some networks take a dictionary with one input.
        inputs = list(network.input.values()) if isinstance(network.input, dict) else [network.input]
        if len(inputs) != 1 or not isinstance(network.output, keras.KerasTensor):
            raise ValueError(
                f"Expected a backbone from images to one tensor of features; {type(network).__name__} of {package} has "
                f"other inputs or outputs: {network.input}, {network.output}."
            )
        _save_position_embeddings(network)
        output = TokenFeatures(features, prefix, name="features")(network.output) if features else network.output
        endpoints = {**_levels(network), "output": output}
        super().__init__(inputs[0], endpoints, **preprocessing, **{"name": network.name, **kwargs})
        self.package = package
        self.preprocessing = preprocessing
        self.features, self.prefix = features, prefix
        # Without its weights, which are saved as weights of this model.
        self.network = keras.saving.serialize_keras_object(network)

    def get_config(self):
        own = {"network": self.network, "package": self.package, "preprocessing": self.preprocessing}
        tokens = {"features": self.features, "prefix": self.prefix} if self.features else {}
        return {**super().get_config(), **own, **tokens}

    @classmethod
    def from_config(cls, config, custom_objects=None):
        package = config["package"]
        import_extra(package)
        with layers_in(config.get("dtype")), working_drop_path():
            network = keras.saving.deserialize_keras_object(config["network"], custom_objects=custom_objects)
        if not isinstance(network, keras.Model) or type(network).__module__.split(".")[0] not in (package, "keras"):
            raise ValueError(f"Expected a network of {package}, received a {type(network).__name__}.")
        return super().from_config({**config, "network": network})


def import_extra(package):
    """Imports an optional package; if that fails, the error says how to install it."""
    if package == keras.__name__:
        return keras
    # A file may name it, and must not name any code to run.
    if package not in INSTALL:
        raise ValueError(f"Expected a backbone of {' or '.join(INSTALL)}, received one of {package!r}.")
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise ImportError(f"Backbones of {package} need {INSTALL[package]} The import failed: {error}") from error


def load_preset(package, preset, load):
    """Returns `load()`, which reads or downloads a preset; errors name the preset."""
    try:
        return load()
    except (ValueError, OSError) as error:
        raise OSError(
            f"{package}(preset={preset!r}) cannot be loaded: {error} Without network access, give the path of a folder "
            "with the preset."
        ) from error


def _save_position_embeddings(network):
    """Makes DINOv2 of keras-hub save its position embeddings unchanged.

    By default it saves them at their published size, and drops trained changes whose sum is not positive.
    """
    for layer in network.layers:
        # The class is of a package that may not be installed, or have another name in its next version.
        if hasattr(layer, "interpolated_position_embeddings"):
            layer.save_own_variables = partial(keras.layers.Layer.save_own_variables, layer)
            layer.load_own_variables = partial(keras.layers.Layer.load_own_variables, layer)


def _levels(network):
    """Returns the levels of a feature pyramid from shallow to deep, without one that is the output."""
    # keras-cv names the layers of levels, keras-hub has their outputs, and some networks have no levels.
    if hasattr(network, "pyramid_level_inputs"):
        levels = {level: network.get_layer(layer).output for level, layer in network.pyramid_level_inputs.items()}
    else:
        # See above.
        levels = getattr(network, "pyramid_outputs", {})
    return {level: features for level, features in levels.items() if features is not network.output}
