"""SGD with layer groups."""

import keras

from tfdml.optimizers.arguments import SGD_ARGUMENTS
from tfdml.optimizers.layer_groups import LayerGroups
from tfdml.registry import register


@register("optimizer", "sgd", **SGD_ARGUMENTS)
class SGD(LayerGroups, keras.optimizers.SGD):
    """Keras' SGD with learning rates by layer group; see `LayerGroups` and `keras.optimizers.SGD`.

    Example: `tfdml.optimizers.SGD(0.01, momentum=0.9, lr_multipliers={"embedding": 10})`.
    """
