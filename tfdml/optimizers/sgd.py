"""SGD with layer groups."""

from typing import Annotated

import keras

from tfdml.optimizers.layer_groups import LayerGroups
from tfdml.optimizers.optimizer_arguments import Average, SGDRate, WeightDecay
from tfdml.registry import register
from tfdml.registry.arguments import boolean
from tfdml.registry.fields import OF_KERAS


@register("optimizer", "sgd")
class SGD(LayerGroups, keras.optimizers.SGD):
    """Keras' SGD with learning rates by layer group; see `LayerGroups` and `keras.optimizers.SGD`.

    Example: `tfdml.optimizers.SGD(0.01, momentum=0.9, lr_multipliers={"embedding": 10})`.

    Args:
        learning_rate, momentum, nesterov, weight_decay, clipnorm, clipvalue, global_clipnorm, use_ema,
            ema_momentum, ema_overwrite_frequency, loss_scale_factor, gradient_accumulation_steps, name: Keras'.
        lr_multipliers, frozen_steps, decay_biases_and_norms, l2, layer_decay: see `LayerGroups`.
    """

    learning_rate: SGDRate = 0.01
    momentum: Average = 0.0
    nesterov: Annotated[bool, boolean(), OF_KERAS] = False
    weight_decay: WeightDecay = None
