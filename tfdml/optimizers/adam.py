"""Adam with layer groups."""

import re
from typing import Annotated

import keras

from tfdml.optimizers.layer_groups import LayerGroups
from tfdml.optimizers.optimizer_arguments import AdamRate, Average, WeightDecay
from tfdml.registry import register, register_short_form
from tfdml.registry.arguments import boolean, number
from tfdml.registry.fields import OF_KERAS


@register_short_form("optimizer")
def meant_optimizer(text):
    """Returns the spec of Adam with a learning rate, if a text is one."""
    return f'"adam(learning_rate={text})"' if re.fullmatch(r"[\d.]+(e-?\d+)?", text) else ""


@register("optimizer", "adam")
class Adam(LayerGroups, keras.optimizers.Adam):
    """Keras' Adam with learning rates by layer group; see `LayerGroups` and `keras.optimizers.Adam`.

    Example: `tfdml.optimizers.Adam(1e-4, lr_multipliers={"loss": 100}, frozen_steps={"backbone": 500})`.

    Args:
        learning_rate, beta_1, beta_2, epsilon, amsgrad, weight_decay, clipnorm, clipvalue, global_clipnorm, use_ema,
            ema_momentum, ema_overwrite_frequency, loss_scale_factor, gradient_accumulation_steps, name: Keras'.
        lr_multipliers, frozen_steps, decay_biases_and_norms, l2, layer_decay: see `LayerGroups`.
    """

    learning_rate: AdamRate = 0.001
    beta_1: Average = 0.9
    beta_2: Average = 0.999
    epsilon: Annotated[float, number(above=0), OF_KERAS] = 1e-7
    amsgrad: Annotated[bool, boolean(), OF_KERAS] = False
    weight_decay: WeightDecay = None
