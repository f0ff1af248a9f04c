"""AdamW with layer groups."""

from typing import Annotated

import keras

from tfdml.optimizers.layer_groups import LayerGroups
from tfdml.optimizers.optimizer_arguments import AdamRate, Average, WeightDecay
from tfdml.registry import register
from tfdml.registry.arguments import boolean, number
from tfdml.registry.fields import OF_KERAS


@register("optimizer", "adamw")
class AdamW(LayerGroups, keras.optimizers.AdamW):
    """Keras' AdamW with learning rates by layer group; see `LayerGroups` and `keras.optimizers.AdamW`.

    Example: `tfdml.optimizers.AdamW(1e-4, weight_decay=1e-4, decay_biases_and_norms=False)`.

    Args:
        learning_rate, beta_1, beta_2, epsilon, amsgrad, weight_decay, clipnorm, clipvalue, global_clipnorm, use_ema,
            ema_momentum, ema_overwrite_frequency, loss_scale_factor, gradient_accumulation_steps, name: Keras'.
        lr_multipliers, frozen_steps, decay_biases_and_norms, l2, layer_decay: see `LayerGroups`.
    """

    learning_rate: AdamRate = 0.001
    weight_decay: WeightDecay = 0.004
    beta_1: Average = 0.9
    beta_2: Average = 0.999
    epsilon: Annotated[float, number(above=0), OF_KERAS] = 1e-7
    amsgrad: Annotated[bool, boolean(), OF_KERAS] = False
