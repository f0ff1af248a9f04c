"""Backbones of keras.applications, keras-hub and keras-cv, and any other Keras network."""

import difflib
import importlib
import inspect
import traceback
import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, Unpack, get_args

import keras
import numpy as np

from tfdml.backbones.backbone import Backbone, with_drop_path, working_drop_path
from tfdml.layers.norms import layers_in
from tfdml.layers.tokens import TokenFeatures
from tfdml.registry import names, register, register_short_form
from tfdml.registry.arguments import (
    Count,
    ImageSize,
    Interpolation,
    ModelArguments,
    Positive,
    Text,
    TokenKind,
    number,
    saved_size,
    several,
    sides_of,
    text,
)

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


# Side of the images that a network was trained on, if it is not 224.
IMAGE_SIZES = {
    "EfficientNetB1": 240,
    "EfficientNetB2": 260,
    "EfficientNetB3": 300,
    "EfficientNetB4": 380,
    "EfficientNetB5": 456,
    "EfficientNetB6": 528,
    "EfficientNetB7": 600,
    "EfficientNetV2B1": 240,
    "EfficientNetV2B2": 260,
    "EfficientNetV2B3": 300,
    "EfficientNetV2S": 384,
    "EfficientNetV2M": 480,
    "EfficientNetV2L": 480,
    "InceptionResNetV2": 299,
    "InceptionV3": 299,
    "NASNetLarge": 331,
    "Xception": 299,
}


# Letters of the beginning of a network's name by which it is recognized.
SHORTEST = 4


# Arguments of networks in keras.applications that change the features; a network has none, one or two of them.
OWN_ARGUMENTS = ("alpha", "depth_multiplier", "minimalistic")
LayerNames = Annotated[Sequence[str], several(text(), at_least=0)]


@keras.saving.register_keras_serializable(package="tfdml")
class KerasApplication(Backbone):
    """A network of keras.applications without its classifier, with random weights until `load_imagenet()`.

    Endpoints are the named layers, `output`, and the stages of its graph.

    Args:
        application: its name in keras.applications, such as "ResNet50" or "EfficientNetV2B0".
        endpoints: names of its layers that become endpoints, from shallow to deep, and methods' choice by default in
            place of the stages.
        output: name of the layer whose output is the features, such as "mixed7" of InceptionV3: the layers after it
            are left out. Default: the network's own.
        alpha: width of MobileNet, MobileNetV2, MobileNetV3Small and MobileNetV3Large. Default: Keras' own.
        depth_multiplier: of MobileNet's depthwise convolutions. Default: Keras' own.
        minimalistic: whether MobileNetV3 does without its advanced blocks.
        **kwargs: see `Backbone`.

    Example:
        backbone = KerasApplication("MobileNetV2", endpoints=("block_13_expand",), alpha=0.35)
        backbone.load_imagenet()
    """

    downloads_imagenet = True

    def __init__(
        self,
        application: Text,
        endpoints: LayerNames = (),
        output: Text | None = None,
        alpha: Positive | None = None,
        depth_multiplier: Count | None = None,
        minimalistic: bool = False,
        **kwargs: Unpack[ModelArguments],
    ):
        own = {"alpha": alpha, "depth_multiplier": depth_multiplier, "minimalistic": minimalistic or None}
        self.own_arguments = {argument: value for argument, value in own.items() if value is not None}
        self.application, self.output_layer = application, output
        network = self._network(weights=None)
        tensors = {layer: _layer(network, layer).output for layer in endpoints}
        arguments = {**_preprocessing_of_application(application), "image_size": IMAGE_SIZES.get(application, 224)}
        tensors["output"] = network.output
        super().__init__(network.input, tensors, **arguments, **{"name": application.lower(), **kwargs})
        self.layer_names = tuple(endpoints)

    def load_imagenet(self):
        """Loads Keras' ImageNet weights from its cache, or downloads them."""
        try:
            pretrained = self._network(weights="imagenet")
        except Exception as error:  # Keras raises a plain Exception if it cannot download.
            raise OSError(
                f"The ImageNet weights of {self.application} cannot be downloaded: {error}. {_how_to_fetch(error)}"
            ) from error
        self.set_weights(pretrained.get_weights())

    def _network(self, weights):
        """Returns the network of Keras, cut at the output layer."""
        make = _function(self.application)
        takes = [name for name in OWN_ARGUMENTS if name in inspect.signature(make).parameters]
        if wrong := [name for name in self.own_arguments if name not in takes]:
            raise ValueError(
                f"{make.__name__} of keras.applications takes no argument {wrong[0]!r}. Of {', '.join(OWN_ARGUMENTS)} "
                f"it takes: {', '.join(takes) or 'none'}."
            )
        with warnings.catch_warnings():
            # MobileNets warn that they take the weights of images of 224 pixels. The network takes images of any size.
            warnings.filterwarnings("ignore", "`input_shape` is undefined or non-square")
            network = make(include_top=False, weights=weights, **self.own_arguments)
        if self.output_layer is None:
            return network
        output = _layer(network, self.output_layer).output
        return keras.Model(network.input, output, name=f"{network.name} up to {self.output_layer}")

    def get_config(self):
        own = {"application": self.application, "endpoints": list(self.layer_names), "output": self.output_layer}
        return {**super().get_config(), **own, **self.own_arguments}


@register_short_form("backbone")
def meant_backbone(text):
    """Returns the spec of the network of keras.applications whose name a text is, or begins."""
    word = text.lower().replace("-", "").replace("_", "")
    matches = [name for name in dir(keras.applications) if name[0].isupper() and name.lower().startswith(word)]
    if len(word) < SHORTEST or not matches:
        return ""
    name = min(matches, key=lambda name: (len(name), name))
    own = f'"{name.lower()}" or ' if name.lower() in names("backbone") else ""
    return f'{own}"keras_applications(name={name!r})"'


@register("backbone", "keras_applications")
def keras_applications(
    name: Text,
    endpoints: LayerNames = (),
    output: Text | None = None,
    alpha: Positive | None = None,
    depth_multiplier: Count | None = None,
    minimalistic: bool = False,
) -> KerasApplication:
    """A network of keras.applications by name; `imagenet` downloads its weights.

    Args:
        name: its name in keras.applications, such as "ResNet50".
        endpoints, output, alpha, depth_multiplier, minimalistic: as of `tfdml.backbones.KerasApplication`.
    """
    return KerasApplication(name, endpoints, output, alpha, depth_multiplier, minimalistic)


LOAD_IT = "load it with load_weights(path), in a command --initial_weights=path."


def _how_to_fetch(error):
    """Returns what to do without network access, from the failed call, which knows the file's name."""
    for frame, _ in traceback.walk_tb(error.__traceback__):
        if frame.f_code is keras.utils.get_file.__code__:
            url, place = frame.f_locals["origin"], frame.f_locals.get("download_target")
            hint = f"put it at {place}, where Keras looks for it, or " if place else ""
            return f"Without network access, download {url} elsewhere and {hint}{LOAD_IT}"
    return f"Without network access, download the file elsewhere and {LOAD_IT}"


def _function(name):
    networks = [key for key, value in vars(keras.applications).items() if inspect.isfunction(value)]
    if name not in networks:
        raise ValueError(f"keras.applications has no network {name!r}. Known: {', '.join(sorted(networks))}.")
    return getattr(keras.applications, name)


def _layer(network, name):
    names = [layer.name for layer in network.layers]
    if name not in names:
        near = ", ".join(difflib.get_close_matches(name, names, n=3, cutoff=0.0))
        raise ValueError(f"{network.name} has no layer {name!r}. The nearest of its {len(names)} layers: {near}.")
    return network.get_layer(name)


def _preprocessing_of_application(application):
    """Returns mean, standard deviation and order of channels, measured on Keras' own `preprocess_input`."""
    prepare = inspect.getmodule(_function(application)).preprocess_input
    # Images of one pixel: black, red, green and blue.
    pixels = np.concatenate([np.zeros((1, 3)), 255 * np.eye(3)]).reshape(4, 1, 1, 3)
    black, *colors = prepare(pixels).reshape(4, 3)
    gains = np.abs(np.stack(colors) - black) / 255
    std = 1 / gains.max(axis=0)
    channels = "rgb" if gains[0].argmax() == 0 else "bgr"
    return {"mean": (0.0 - black * std).tolist(), "std": std.tolist(), "channels": channels}


@register("backbone", "keras_cv")
def keras_cv(preset: Text) -> Borrowed:
    """An image backbone of keras-cv with the weights, if any, of its preset: a name or a local folder."""
    models = import_extra("keras_cv").models
    classes = [
        value for value in vars(models).values() if inspect.isclass(value) and issubclass(value, models.Backbone)
    ]
    owner = next((value for value in classes if preset in value.presets), models.Backbone)
    network = load_preset("keras_cv", preset, lambda: owner.from_preset(preset))
    # The network either scales pixels to 0 ... 1 itself, or expects them scaled.
    std = 1.0 if network.get_config().get("include_rescaling") else 255.0
    preprocessing = {"mean": (0.0,) * 3, "std": (std,) * 3, "image_size": network.inputs[0].shape[1] or 224}
    backbone = Borrowed(network, "keras_cv", preprocessing)
    backbone.pretrained = preset not in owner.presets or preset in owner.presets_with_weights
    return backbone


# Tokens that are of the whole image: of all other transformers the tokens are those of patches.
FIRST_TOKENS = {
    "CLIPVisionEncoder": 1,
    "DINOV2Backbone": 1,
    "DINOV3Backbone": 1,
    "DeiTBackbone": 2,
    "MetaCLIP2VisionEncoder": 1,
    "ViTBackbone": 1,
}


@register("backbone", "keras_hub")
def keras_hub(
    preset: Text,
    image_size: ImageSize | None = None,
    features: TokenKind | None = None,
    drop_path: Annotated[float, number(at_least=0, below=1)] | None = None,
) -> Borrowed:
    """An image backbone of keras-hub with the weights of its preset; of one with two towers, such as CLIP, the image's.

    Args:
        preset: a preset's name or a local folder.
        image_size: side of images, or (height, width), for networks with a fixed size, such as transformers; None: the
            preset's. Two towers have that of their preset.
        features: what stands for an image in a transformer: `class`, the token of the whole image, `patches`, the mean
            of those of patches, or `both` side by side. Default: `class` of the image tower of two; else all tokens, of
            which the head makes one vector.
        drop_path: fraction of images whose residual branches training leaves out, see `tfdml.layers.DropPath`; None:
            the preset's.
    """
    package = import_extra("keras_hub")
    shape = {} if image_size is None else {"image_shape": (*sides_of(image_size), 3)}
    with working_drop_path():
        whole = load_preset("keras_hub", preset, lambda: package.models.Backbone.from_preset(preset, **shape))
    has_towers = "vision_encoder" in whole.get_config()
    network = whole.vision_encoder if has_towers else whole
    _check_images(network, preset)
    network = network if drop_path is None else with_drop_path(network, drop_path)
    if Path(preset).is_dir() and not (Path(preset) / "image_converter.json").is_file():
        # The result of a backbone's own `save_to_preset`.
        raise ValueError(
            f"The folder {preset} does not declare how pixels are scaled: it has no image_converter.json. Write "
            "one: keras_hub.layers.ImageConverter(image_size=..., scale=..., offset=...).save_to_preset(folder)."
        )
    converter = load_preset("keras_hub", preset, lambda: package.layers.ImageConverter.from_preset(preset))
    prefix = _prefix(network)
    if isinstance(network.output, dict):
        # Of the features of several depths, as of HGNetV2, the deepest: the last in the network's order, which
        # `keras.tree` does not keep.
        network = keras.Model(network.inputs, list(network.output.values())[-1], name=network.name)
    tokens = len(network.output.shape) == 3
    if features and not tokens:
        raise ValueError(
            f"keras_hub(preset={preset!r}) returns features {network.output.shape}, no tokens: leave out features, and "
            "choose the head's pooling."
        )
    kind = features or ("class" if tokens and has_towers else None)
    options = {"features": kind, "prefix": prefix} if kind else {}
    return Borrowed(network, "keras_hub", _preprocessing_of_keras_hub(network, converter), **options)


def _check_images(network, preset):
    """Raises a ValueError for a network of something else than images, or whose patches do not divide them."""
    shapes = [each.shape for each in network.inputs]
    if len(shapes) != 1 or len(shapes[0]) != 4:
        raise ValueError(
            f"keras_hub(preset={preset!r}) is a {type(network).__name__}, which takes no images alone: its inputs have "
            f"the shapes {', '.join(map(str, shapes))}. Expected an image backbone, or one with two towers."
        )
    # Only transformers have patches; a number, or height and width.
    patch = np.broadcast_to(network.get_config().get("patch_size") or 1, 2)
    sides = shapes[0][1:3]
    if all(sides) and any(side % each for side, each in zip(sides, patch, strict=True)):
        raise ValueError(
            f"keras_hub(preset={preset!r}): images of {sides[0]} x {sides[1]} pixels do not divide into patches of "
            f"{patch[0]} x {patch[1]}. Give image_size as a multiple."
        )


def _prefix(network):
    """Returns the number of tokens before those of patches: of the whole image, of distillation, and registers."""
    config = network.get_config()
    first = FIRST_TOKENS.get(type(network).__name__, 0) if config.get("use_class_token", True) else 0
    return first + config.get("num_register_tokens", 0)


def _preprocessing_of_keras_hub(network, converter):
    """Converts keras-hub's `pixels * scale + offset` to mean and standard deviation, and reads how it resizes."""
    scale = np.broadcast_to(1.0 if converter.scale is None else converter.scale, 3).astype("float64")
    offset = np.broadcast_to(0.0 if converter.offset is None else converter.offset, 3).astype("float64")
    # The network's own size first, because it refuses any other.
    own = network.inputs[0].shape[1:3]
    height, width = own if all(own) else converter.image_size or (224, 224)
    size = saved_size(height, width)
    preprocessing = {"mean": (0.0 - offset / scale).tolist(), "std": (1 / scale).tolist(), "image_size": size}
    # Without antialiasing "nearest" would lose pixels, and nothing was pretrained with it.
    is_known = converter.interpolation in get_args(Interpolation)
    return {**preprocessing, **({"interpolation": converter.interpolation} if is_known else {})}
