"""AdamW with layer groups."""

import keras

from tfdml.optimizers.arguments import ADAM_ARGUMENTS
from tfdml.optimizers.layer_groups import LayerGroups
from tfdml.registry import register


@register("optimizer", "adamw", **ADAM_ARGUMENTS)
class AdamW(LayerGroups, keras.optimizers.AdamW):
    """Keras' AdamW with learning rates by layer group; see `LayerGroups` and `keras.optimizers.AdamW`.

    Example: `tfdml.optimizers.AdamW(1e-4, weight_decay=1e-4, decay_biases_and_norms=False)`.
    """
