"""Backbones from keras.applications, keras-hub and keras-cv, and other Keras networks."""

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

# keras-hub requires tensorflow-text. This requires `tensorflow`, which must not be installed over `tensorflow-cpu`.
INSTALL = {
    "keras_hub": (
        "the extra 'hub'. If you use the extra 'gpu', run: pip install 'tfdml[hub]'. If you use the extra 'cpu', this "
        "would install tensorflow over tensorflow-cpu, so run: pip install --no-deps 'keras-hub~=0.32.0' "
        "'kagglehub!=1.0.1' kagglesdk==0.1.28 sentencepiece tokenizers regex rich tqdm pyyaml."
    ),
    "keras_cv": "the extra 'keras-cv'. Run: pip install 'tfdml[keras-cv]'.",
}


@keras.saving.register_keras_serializable(package="tfdml")
class Borrowed(Backbone):
    """Backbone that wraps a Keras network, for example from keras-hub or keras-cv, so that methods can use it.

    For presets, `tfdml.backbones.keras_hub` and `tfdml.backbones.keras_cv` create it. Use the class itself for a Keras
    network with known preprocessing. Its endpoints are the levels of the network's feature pyramid, if it has one, such
    as `P2` at 1/4 of the resolution, `output`, and the stages of its graph.

    Args:
        network: Keras network from images to one tensor.
        package: Package that must be imported before the network can be loaded from a file: `"keras_hub"`,
            `"keras_cv"` or `"keras"`.
        preprocessing: Dictionary with `mean`, `std` and `image_size`, see `Backbone`.
        features: Which tokens of a transformer represent an image, see `tfdml.layers.TokenFeatures`. If `None`, it is
            the whole output. Defaults to `None`.
        prefix: Integer. Number of tokens before the patch tokens. Defaults to `1`.
        **kwargs: `name`, `trainable` and `dtype` of `keras.Model`.

    Raises:
        ValueError: If the network has several inputs or outputs.

    Example:

    ```python
    images = keras.Input((32, 32, 3))
    network = keras.Model(images, keras.layers.Conv2D(8, 3, strides=4)(images))
    preprocessing = {"mean": (127.5,) * 3, "std": (127.5,) * 3, "image_size": 32}
    backbone = tfdml.backbones.Borrowed(network, "keras", preprocessing)
    backbone.output.shape  # (None, 8, 8, 8)
    ```
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
        # Some networks have a dictionary with one input.
        inputs = list(network.input.values()) if isinstance(network.input, dict) else [network.input]
        if len(inputs) != 1 or not isinstance(network.output, keras.KerasTensor):
            raise ValueError(
                f"{type(network).__name__} of {package} cannot be a backbone. Expected a network from images to one "
                f"tensor of features. Received: inputs {network.input}, outputs {network.output}."
            )
        _save_position_embeddings(network)
        output = TokenFeatures(features, prefix, name="features")(network.output) if features else network.output
        endpoints = {**_levels(network), "output": output}
        super().__init__(inputs[0], endpoints, **preprocessing, **{"name": network.name, **kwargs})
        self.package = package
        self.preprocessing = preprocessing
        self.features, self.prefix = features, prefix
        # The config has no weights, because they are saved as weights of this model.
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
            raise ValueError(f"The file must contain a {package} network. Received: {type(network).__name__}.")
        return super().from_config({**config, "network": network})


def import_extra(package):
    """Imports an optional package, or raises an error that explains how to install it."""
    if package == keras.__name__:
        return keras
    # The name may come from a file, and a file must not select code to run.
    if package not in INSTALL:
        raise ValueError(f"package must be {' or '.join(map(repr, INSTALL))}. Received: package={package!r}.")
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise ImportError(f"{package} backbones need {INSTALL[package]} The import failed with: {error}") from error


def load_preset(package, preset, load):
    """Returns `load()`, which reads or downloads a preset. If it fails, the error names the preset."""
    try:
        return load()
    except (ValueError, OSError) as error:
        raise OSError(
            f"{package}(preset={preset!r}) cannot be loaded: {error} Without network access, set preset to the path of "
            "a folder with the preset."
        ) from error


def _save_position_embeddings(network):
    """Makes keras-hub's DINOv2 save its position embeddings unchanged.

    By default, it saves them at their published size and loses trained changes if their sum is not positive.
    """
    for layer in network.layers:
        # Recognize the layer by its attribute: its package may not be installed, and its class may be renamed.
        if hasattr(layer, "interpolated_position_embeddings"):
            layer.save_own_variables = partial(keras.layers.Layer.save_own_variables, layer)
            layer.load_own_variables = partial(keras.layers.Layer.load_own_variables, layer)


def _levels(network):
    """Returns the levels of a feature pyramid from shallow to deep, except the output of the network."""
    # keras-cv stores the names of the layers, keras-hub stores their outputs, and some networks have no levels.
    if hasattr(network, "pyramid_level_inputs"):
        levels = {level: network.get_layer(layer).output for level, layer in network.pyramid_level_inputs.items()}
    else:
        # Networks without a feature pyramid do not have this attribute.
        levels = getattr(network, "pyramid_outputs", {})
    return {level: features for level, features in levels.items() if features is not network.output}


# Side of the images on which a network was trained, if it is not 224.
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


# A network is recognized by at least this number of letters at the start of its name.
SHORTEST = 4


# Arguments of networks in keras.applications that change the features. No network has all of them.
OWN_ARGUMENTS = ("alpha", "depth_multiplier", "minimalistic")
LayerNames = Annotated[Sequence[str], several(text(), at_least=0)]


@keras.saving.register_keras_serializable(package="tfdml")
class KerasApplication(Backbone):
    """Backbone from keras.applications without its classifier, with random weights until you call `load_imagenet()`.

    Use it for networks that are pretrained on ImageNet. Its endpoints are the layers in `endpoints`, `output`, and the
    stages of its graph.

    Args:
        application: String. Name in keras.applications, such as `"ResNet50"` or `"EfficientNetV2B0"`.
        endpoints: Names of layers that become endpoints, from shallow to deep. Methods then use them by default,
            instead of the stages. Defaults to `()`.
        output: String. Name of the layer that computes the features, such as `"mixed7"` of InceptionV3. The layers
            after it are removed. If `None`, it is the last layer before the classifier. Defaults to `None`.
        alpha: Float. Width multiplier of MobileNet, MobileNetV2, MobileNetV3Small and MobileNetV3Large. If `None`, it
            is Keras' default. Defaults to `None`.
        depth_multiplier: Integer. Depth multiplier of MobileNet's depthwise convolutions. If `None`, it is Keras'
            default. Defaults to `None`.
        minimalistic: Boolean. Whether MobileNetV3 is built without its advanced blocks. Defaults to `False`.
        **kwargs: `name`, `trainable` and `dtype` of `keras.Model`.

    Raises:
        ValueError: If keras.applications has no such network, or if the network has no such layer or argument.

    Example:

    ```python
    backbone = tfdml.backbones.KerasApplication("MobileNetV2", endpoints=("block_13_expand",), alpha=0.35)
    backbone.output.shape  # (None, None, None, 1280)
    ```

    `backbone.load_imagenet()` then downloads the ImageNet weights.
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
        """Loads Keras' ImageNet weights from the cache, or downloads them.

        Raises:
            OSError: If the download fails. The error explains how to get the file in another way.
        """
        try:
            pretrained = self._network(weights="imagenet")
        except Exception as error:  # Keras raises a plain Exception if a download fails.
            raise OSError(
                f"The ImageNet weights of {self.application} cannot be downloaded: {error}. {_how_to_fetch(error)}"
            ) from error
        self.set_weights(pretrained.get_weights())

    def _network(self, weights):
        """Returns the Keras network up to the output layer."""
        make = _function(self.application)
        known = [name for name in OWN_ARGUMENTS if name in inspect.signature(make).parameters]
        if wrong := [name for name in self.own_arguments if name not in known]:
            raise ValueError(
                f"{make.__name__} of keras.applications has no argument {wrong[0]!r}. Of "
                f"{', '.join(OWN_ARGUMENTS)}, it has: {', '.join(known) or 'none'}."
            )
        with warnings.catch_warnings():
            # MobileNets warn that they load the weights for images of 224 pixels, but the network accepts any size.
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
    """Returns the spec of the keras.applications network with a name that starts with the text, or ""."""
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
    """Creates a network of keras.applications by its name; `--initial_weights=imagenet` downloads its weights.

    Args:
        name: String. Name in keras.applications, such as `"ResNet50"`.
        endpoints, output, alpha, depth_multiplier, minimalistic: see `tfdml.backbones.KerasApplication`.

    Returns:
        `tfdml.backbones.KerasApplication`.
    """
    return KerasApplication(name, endpoints, output, alpha, depth_multiplier, minimalistic)


LOAD_IT = "load it with load_weights(path), or with --initial_weights=path in a command."


def _how_to_fetch(error):
    """Returns advice for machines without network access. The failed call contains the address of the file."""
    for frame, _ in traceback.walk_tb(error.__traceback__):
        if frame.f_code is keras.utils.get_file.__code__:
            url, place = frame.f_locals["origin"], frame.f_locals.get("download_target")
            hint = f"put it at {place}, where Keras looks for it, or " if place else ""
            return f"Without network access, download {url} on another machine and {hint}{LOAD_IT}"
    return f"Without network access, download the file on another machine and {LOAD_IT}"


def _function(name):
    networks = [key for key, value in vars(keras.applications).items() if inspect.isfunction(value)]
    if name not in networks:
        raise ValueError(f"keras.applications has no network {name!r}. Expected one of {', '.join(sorted(networks))}.")
    return getattr(keras.applications, name)


def _layer(network, name):
    names = [layer.name for layer in network.layers]
    if name not in names:
        near = ", ".join(difflib.get_close_matches(name, names, n=3, cutoff=0.0))
        raise ValueError(f"{network.name} has no layer {name!r}. The most similar of its {len(names)} layers: {near}.")
    return network.get_layer(name)


def _preprocessing_of_application(application):
    """Returns mean, standard deviation and channel order, measured with Keras' `preprocess_input`."""
    prepare = inspect.getmodule(_function(application)).preprocess_input
    # Four images of one pixel each: black, red, green and blue.
    pixels = np.concatenate([np.zeros((1, 3)), 255 * np.eye(3)]).reshape(4, 1, 1, 3)
    black, *colors = prepare(pixels).reshape(4, 3)
    gains = np.abs(np.stack(colors) - black) / 255
    std = 1 / gains.max(axis=0)
    channels = "rgb" if gains[0].argmax() == 0 else "bgr"
    return {"mean": (0.0 - black * std).tolist(), "std": std.tolist(), "channels": channels}


@register("backbone", "keras_cv")
def keras_cv(preset: Text) -> Borrowed:
    """Creates an image backbone from a keras-cv preset, with the weights of the preset, if it has any.

    It needs the extra `keras-cv`. For newer networks, use `tfdml.backbones.keras_hub`.

    Args:
        preset: String. Name of a preset, or path of a local folder.

    Returns:
        `tfdml.backbones.Borrowed`.

    Raises:
        ImportError: If keras-cv is not installed.
        OSError: If the preset cannot be loaded.

    For example, `tfdml.backbones.keras_cv("resnet50_imagenet")` downloads a ResNet-50 with ImageNet weights. The preset
    `"resnet50"` has random weights.
    """
    models = import_extra("keras_cv").models
    classes = [
        value for value in vars(models).values() if inspect.isclass(value) and issubclass(value, models.Backbone)
    ]
    owner = next((value for value in classes if preset in value.presets), models.Backbone)
    network = load_preset("keras_cv", preset, lambda: owner.from_preset(preset))
    # Some networks scale pixels to 0 to 1 themselves, and the others expect scaled pixels.
    std = 1.0 if network.get_config().get("include_rescaling") else 255.0
    preprocessing = {"mean": (0.0,) * 3, "std": (std,) * 3, "image_size": network.inputs[0].shape[1] or 224}
    backbone = Borrowed(network, "keras_cv", preprocessing)
    backbone.pretrained = preset not in owner.presets or preset in owner.presets_with_weights
    return backbone


# Number of tokens that represent the whole image. Other transformers only have patch tokens.
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
    features: TokenKind | Literal["shared"] | None = None,
    drop_path: Annotated[float, number(at_least=0, below=1)] | None = None,
) -> Borrowed:
    """Creates an image backbone from a keras-hub preset with its weights, such as DINOv2 or CLIP.

    It needs the extra `hub`. From presets with two towers, such as CLIP, it uses the image tower.

    Args:
        preset: String. Name of a preset, or path of a local folder.
        image_size: Integer, the side of a square, or (height, width). Size of the images, for networks with a fixed
            size, such as transformers. If `None`, it is the size of the preset. Presets with two towers always have
            their own size. Defaults to `None`.
        features: Which tokens of a transformer represent an image: `"class"`, the token of the whole image,
            `"patches"`, the mean of the patch tokens, or `"both"`, concatenated. For presets with two towers,
            `"shared"` is the embedding in the space of images and texts, see `tfdml.TwoTowers`. If `None`, it is
            `"class"` for presets with two towers. For other presets, it is all tokens, which the head pools. Defaults
            to `None`.
        drop_path: Float. Fraction of the images for which training drops a residual branch, see
            `tfdml.layers.DropPath`. If `None`, it is the value of the preset. Defaults to `None`.

    Returns:
        `tfdml.backbones.Borrowed`.

    Raises:
        ImportError: If keras-hub is not installed.
        OSError: If the preset cannot be loaded.
        ValueError: If the preset is not an image backbone, or if the image size does not fit its patches.

    For example, `tfdml.backbones.keras_hub("vit_base_patch16_224_imagenet21k", features="class")` downloads a vision
    transformer and represents each image by its class token.
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
        # A backbone's own `save_to_preset` writes such a folder.
        raise ValueError(
            f"The folder {preset} does not specify how to scale pixels, because it has no image_converter.json. Write "
            "one: keras_hub.layers.ImageConverter(image_size=..., scale=..., offset=...).save_to_preset(folder)."
        )
    converter = load_preset("keras_hub", preset, lambda: package.layers.ImageConverter.from_preset(preset))
    if features == "shared":
        if not has_towers:
            raise ValueError(
                f"features='shared' needs a preset with two towers, such as CLIP or SigLIP. Received: "
                f"keras_hub(preset={preset!r}), a {type(whole).__name__}."
            )
        images = keras.Input(network.inputs[0].shape[1:])
        shared = keras.Model(images, whole.get_vision_embeddings(images), name=f"{network.name}_shared")
        backbone = Borrowed(shared, "keras_hub", _preprocessing_of_keras_hub(network, converter))
        backbone.preset = preset
        return backbone
    prefix = _prefix(network)
    if isinstance(network.output, dict):
        # Use the deepest features of networks with several outputs, such as HGNetV2. They are last in the network's
        # own order, which `keras.tree` does not keep.
        network = keras.Model(network.inputs, list(network.output.values())[-1], name=network.name)
    tokens = len(network.output.shape) == 3
    if features and not tokens:
        raise ValueError(
            f"features selects tokens, but keras_hub(preset={preset!r}) returns a feature map of shape "
            f"{network.output.shape}. Remove features, and set the pooling of the head instead."
        )
    kind = features or ("class" if tokens and has_towers else None)
    options = {"features": kind, "prefix": prefix} if kind else {}
    return Borrowed(network, "keras_hub", _preprocessing_of_keras_hub(network, converter), **options)


def _check_images(network, preset):
    """Raises a ValueError if a network does not process images, or if its patches do not divide them evenly."""
    shapes = [each.shape for each in network.inputs]
    if len(shapes) != 1 or len(shapes[0]) != 4:
        raise ValueError(
            f"keras_hub(preset={preset!r}) is not an image backbone. Expected a preset of an image backbone or with "
            f"two towers. Received: {type(network).__name__} with inputs of shape {', '.join(map(str, shapes))}."
        )
    # Only transformers have a patch size, which is a number or (height, width).
    patch = np.broadcast_to(network.get_config().get("patch_size") or 1, 2)
    sides = shapes[0][1:3]
    if all(sides) and any(side % each for side, each in zip(sides, patch, strict=True)):
        raise ValueError(
            f"image_size must be a multiple of the patch size of keras_hub(preset={preset!r}). Expected a multiple of "
            f"{patch[0]} x {patch[1]}. Received: images of {sides[0]} x {sides[1]} pixels."
        )


def _prefix(network):
    """Returns the number of tokens before the patch tokens: class and distillation tokens, and registers."""
    config = network.get_config()
    first = FIRST_TOKENS.get(type(network).__name__, 0) if config.get("use_class_token", True) else 0
    return first + config.get("num_register_tokens", 0)


def _preprocessing_of_keras_hub(network, converter):
    """Converts keras-hub's `pixels * scale + offset` to mean and standard deviation, with size and interpolation."""
    scale = np.broadcast_to(1.0 if converter.scale is None else converter.scale, 3).astype("float64")
    offset = np.broadcast_to(0.0 if converter.offset is None else converter.offset, 3).astype("float64")
    # Prefer the size of the network, because it does not accept others.
    own = network.inputs[0].shape[1:3]
    height, width = own if all(own) else converter.image_size or (224, 224)
    size = saved_size(height, width)
    preprocessing = {"mean": (0.0 - offset / scale).tolist(), "std": (1 / scale).tolist(), "image_size": size}
    # "nearest" without antialiasing would lose pixels, and no known network was pretrained with it.
    is_known = converter.interpolation in get_args(Interpolation)
    return {**preprocessing, **({"interpolation": converter.interpolation} if is_known else {})}
