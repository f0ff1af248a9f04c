"""The image backbones of keras-hub: ResNet, ViT, DINOv2, DINOv3 and others."""

from pathlib import Path

import numpy as np

from tfdml.backbones.borrowed import Borrowed, import_extra, load_preset
from tfdml.registry.arguments import Text
from tfdml.registry.image_sizes import ImageSize, saved_size, sides_of
from tfdml.registry.parts import register


@register("backbone", "keras_hub")
def keras_hub(preset: Text, image_size: ImageSize | None = None) -> Borrowed:
    """An image backbone of keras-hub with the weights of its preset.

    Args:
        preset: a preset's name or a local folder.
        image_size: side of images, or (height, width), for networks with a fixed size, such as transformers; None: the
            preset's.
    """
    package = import_extra("keras_hub")
    shape = {} if image_size is None else {"image_shape": (*sides_of(image_size), 3)}
    network = load_preset("keras_hub", preset, lambda: package.models.Backbone.from_preset(preset, **shape))
    if Path(preset).is_dir() and not (Path(preset) / "image_converter.json").is_file():
        # The result of a backbone's own `save_to_preset`.
        raise ValueError(
            f"The folder {preset} does not declare how pixels are scaled: it has no image_converter.json. Write "
            "one: keras_hub.layers.ImageConverter(image_size=..., scale=..., offset=...).save_to_preset(folder)."
        )
    converter = load_preset("keras_hub", preset, lambda: package.layers.ImageConverter.from_preset(preset))
    return Borrowed(network, "keras_hub", _preprocessing(network, converter))


def _preprocessing(network, converter):
    """Converts keras-hub's `pixels * scale + offset` to mean and standard deviation."""
    scale = np.broadcast_to(1.0 if converter.scale is None else converter.scale, 3).astype("float64")
    offset = np.broadcast_to(0.0 if converter.offset is None else converter.offset, 3).astype("float64")
    # The network's own size first, because it refuses any other.
    own = network.inputs[0].shape[1:3]
    height, width = own if all(own) else converter.image_size or (224, 224)
    size = saved_size(height, width)
    return {"mean": (0.0 - offset / scale).tolist(), "std": (1 / scale).tolist(), "image_size": size}
