"""Adam with layer groups."""

import keras

from tfdml.optimizers.arguments import ADAM_ARGUMENTS
from tfdml.optimizers.layer_groups import LayerGroups
from tfdml.registry import register


@register("optimizer", "adam", **ADAM_ARGUMENTS)
class Adam(LayerGroups, keras.optimizers.Adam):
    """Keras' Adam with learning rates by layer group; see `LayerGroups` and `keras.optimizers.Adam`.

    Example: `tfdml.optimizers.Adam(1e-4, lr_multipliers={"loss": 100}, frozen_steps={"backbone": 500})`.
    """
