"""The image backbones of keras-hub: ResNet, ViT, DINOv2, DINOv3 and others, and the image towers of CLIP and SigLIP."""

from pathlib import Path
from typing import Annotated, get_args

import keras
import numpy as np

from tfdml.backbones.borrowed import Borrowed, import_extra, load_preset
from tfdml.backbones.drop_path import with_drop_path, working_drop_path
from tfdml.registry import register
from tfdml.registry.arguments import ImageSize, Interpolation, Text, TokenKind, number, saved_size, sides_of

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
    prefix, network = _prefix(network), _of_one_output(network)
    tokens = len(network.output.shape) == 3
    if features and not tokens:
        raise ValueError(
            f"keras_hub(preset={preset!r}) returns features {network.output.shape}, no tokens: leave out features, and "
            "choose the head's pooling."
        )
    kind = features or ("class" if tokens and has_towers else None)
    about = {"features": kind, "prefix": prefix} if kind else {}
    return Borrowed(network, "keras_hub", _preprocessing(network, converter), **about)


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


def _of_one_output(network):
    """Returns a network that gives the features of several depths, as HGNetV2, as one that gives the deepest."""
    if not isinstance(network.output, dict):
        return network
    # In the network's order, which `keras.tree` does not keep.
    deepest = list(network.output.values())[-1]
    return keras.Model(network.inputs, deepest, name=network.name)


def _prefix(network):
    """Returns the number of tokens before those of patches: of the whole image, of distillation, and registers."""
    config = network.get_config()
    first = FIRST_TOKENS.get(type(network).__name__, 0) if config.get("use_class_token", True) else 0
    return first + config.get("num_register_tokens", 0)


def _preprocessing(network, converter):
    """Converts keras-hub's `pixels * scale + offset` to mean and standard deviation, and reads how it resizes."""
    scale = np.broadcast_to(1.0 if converter.scale is None else converter.scale, 3).astype("float64")
    offset = np.broadcast_to(0.0 if converter.offset is None else converter.offset, 3).astype("float64")
    # The network's own size first, because it refuses any other.
    own = network.inputs[0].shape[1:3]
    height, width = own if all(own) else converter.image_size or (224, 224)
    size = saved_size(height, width)
    about = {"mean": (0.0 - offset / scale).tolist(), "std": (1 / scale).tolist(), "image_size": size}
    # Without antialiasing "nearest" would lose pixels, and nothing was pretrained with it.
    known = converter.interpolation in get_args(Interpolation)
    return {**about, **({"interpolation": converter.interpolation} if known else {})}
