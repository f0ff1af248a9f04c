"""The networks of keras.applications."""

import difflib
import inspect
import traceback
import warnings
from collections.abc import Sequence
from typing import Annotated, Unpack

import keras
import numpy as np

from tfdml.backbones.backbone import Backbone
from tfdml.registry import names, register, register_short_form
from tfdml.registry.arguments import Count, ModelArguments, Positive, Text, several, text

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
        self.application = application
        self.output_layer = output
        network = self._network(weights=None)
        tensors = {layer: _layer(network, layer).output for layer in endpoints}
        arguments = {**_preprocessing(application), "image_size": IMAGE_SIZES.get(application, 224)}
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
        _check_own_arguments(make, self.own_arguments)
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
    found = [name for name in dir(keras.applications) if name[0].isupper() and name.lower().startswith(word)]
    if len(word) < SHORTEST or not found:
        return ""
    name = min(found, key=lambda name: (len(name), name))
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
            found = f"put it at {place}, where Keras looks for it, or " if place else ""
            return f"Without network access, download {url} elsewhere and {found}{LOAD_IT}"
    return f"Without network access, download the file elsewhere and {LOAD_IT}"


def _function(name):
    known = [key for key, value in vars(keras.applications).items() if inspect.isfunction(value)]
    if name not in known:
        raise ValueError(f"keras.applications has no network {name!r}. Known: {', '.join(sorted(known))}.")
    return getattr(keras.applications, name)


def _check_own_arguments(function, names):
    takes = [name for name in OWN_ARGUMENTS if name in inspect.signature(function).parameters]
    wrong = [name for name in names if name not in takes]
    if wrong:
        raise ValueError(
            f"{function.__name__} of keras.applications takes no argument {wrong[0]!r}. Of {', '.join(OWN_ARGUMENTS)} "
            f"it takes: {', '.join(takes) or 'none'}."
        )


def _layer(network, name):
    names = [layer.name for layer in network.layers]
    if name not in names:
        near = ", ".join(difflib.get_close_matches(name, names, n=3, cutoff=0.0))
        raise ValueError(f"{network.name} has no layer {name!r}. The nearest of its {len(names)} layers: {near}.")
    return network.get_layer(name)


def _preprocessing(application):
    """Returns mean, standard deviation and order of channels, measured on Keras' own `preprocess_input`."""
    prepare = inspect.getmodule(_function(application)).preprocess_input
    # Images of one pixel: black, red, green and blue.
    pixels = np.concatenate([np.zeros((1, 3)), 255 * np.eye(3)]).reshape(4, 1, 1, 3)
    black, *colors = prepare(pixels).reshape(4, 3)
    gains = np.abs(np.stack(colors) - black) / 255
    std = 1 / gains.max(axis=0)
    channels = "rgb" if gains[0].argmax() == 0 else "bgr"
    return {"mean": (0.0 - black * std).tolist(), "std": std.tolist(), "channels": channels}
