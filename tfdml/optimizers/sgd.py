"""SGD with layer groups."""

from typing import TYPE_CHECKING, Unpack

import keras

from tfdml.optimizers.layer_groups import LayerGroups
from tfdml.optimizers.optimizer_arguments import SGD_ARGUMENTS, LearningRate, OptimizerArguments
from tfdml.registry.parts import register


@register("optimizer", "sgd", **SGD_ARGUMENTS)
class SGD(LayerGroups, keras.optimizers.SGD):
    """Keras' SGD with learning rates by layer group; see `LayerGroups` and `keras.optimizers.SGD`.

    Example: `tfdml.optimizers.SGD(0.01, momentum=0.9, lr_multipliers={"embedding": 10})`.

    Args:
        learning_rate, momentum, nesterov, weight_decay, clipnorm, clipvalue, global_clipnorm, use_ema,
            ema_momentum, ema_overwrite_frequency, loss_scale_factor, gradient_accumulation_steps, name: Keras'.
        lr_multipliers, frozen_steps, decay_biases_and_norms, l2, layer_decay: see `LayerGroups`.
    """

    if TYPE_CHECKING:
        # What editors see; the arguments are those of the base classes.
        def __init__(
            self,
            learning_rate: LearningRate = 0.01,
            momentum: float = 0.0,
            nesterov: bool = False,
            **kwargs: Unpack[OptimizerArguments],
        ): ...
