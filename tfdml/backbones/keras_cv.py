"""The image backbones of keras-cv, whose last release was 0.9."""

import inspect

from tfdml.backbones.borrowed import Borrowed, import_extra, load_preset
from tfdml.registry import register
from tfdml.registry.arguments import Text


@register("backbone", "keras_cv")
def keras_cv(preset: Text) -> Borrowed:
    """An image backbone of keras-cv with the weights, if any, of its preset: a name or a local folder."""
    models = import_extra("keras_cv").models
    classes = [
        value for value in vars(models).values() if inspect.isclass(value) and issubclass(value, models.Backbone)
    ]
    owner = next((value for value in classes if preset in value.presets), models.Backbone)
    network = load_preset("keras_cv", preset, lambda: owner.from_preset(preset))
    backbone = Borrowed(network, "keras_cv", _preprocessing(network))
    backbone.pretrained = preset not in owner.presets or preset in owner.presets_with_weights
    return backbone


def _preprocessing(network):
    # The network either scales pixels to 0 ... 1 itself, or expects them scaled.
    std = 1.0 if network.get_config().get("include_rescaling") else 255.0
    return {"mean": (0.0,) * 3, "std": (std,) * 3, "image_size": network.inputs[0].shape[1] or 224}
