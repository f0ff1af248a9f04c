"""AdamW with layer groups."""

from typing import TYPE_CHECKING, Unpack

import keras

from tfdml.optimizers.layer_groups import LayerGroups
from tfdml.optimizers.optimizer_arguments import ADAM_ARGUMENTS, GroupArguments, LearningRate
from tfdml.registry.parts import register


@register("optimizer", "adamw", **ADAM_ARGUMENTS)
class AdamW(LayerGroups, keras.optimizers.AdamW):
    """Keras' AdamW with learning rates by layer group; see `LayerGroups` and `keras.optimizers.AdamW`.

    Example: `tfdml.optimizers.AdamW(1e-4, weight_decay=1e-4, decay_biases_and_norms=False)`.

    Args:
        learning_rate, beta_1, beta_2, epsilon, amsgrad, weight_decay, clipnorm, clipvalue, global_clipnorm, use_ema,
            ema_momentum, ema_overwrite_frequency, loss_scale_factor, gradient_accumulation_steps, name: Keras'.
        lr_multipliers, frozen_steps, decay_biases_and_norms, l2, layer_decay: see `LayerGroups`.
    """

    if TYPE_CHECKING:
        # What editors see; the arguments are those of the base classes.
        def __init__(
            self,
            learning_rate: LearningRate = 0.001,
            weight_decay: float = 0.004,
            beta_1: float = 0.9,
            beta_2: float = 0.999,
            epsilon: float = 1e-7,
            amsgrad: bool = False,
            **kwargs: Unpack[GroupArguments],
        ): ...
