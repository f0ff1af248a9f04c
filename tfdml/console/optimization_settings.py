"""The settings of a training run that say how weights change."""

import dataclasses

from tfdml.console.setting_fields import flag


@dataclasses.dataclass(frozen=True)
class OptimizationSettings:
    """How weights change."""

    optimizer: str = flag("auto", "Optimizer spec; auto: adam, at a rate of 1e-4 if pretrained, of 1e-3 if not.")
    schedule: str = flag(
        "constant", "Learning rate schedule spec, in epochs: constant, step(at=(10, 15)), cosine(warmup_epochs=1), ..."
    )
    lr_multipliers: tuple[str, ...] = flag(
        (),
        "Learning rate multipliers by layer group, such as embedding=10,loss=100. A group is backbone, embedding, "
        "loss, or a layer name, in which '*' matches anything. 0 freezes; of several groups the last applies.",
    )
    layer_decay: float = flag(
        1.0,
        "Factor, such as 0.75, of the learning rate from each block of the backbone to the one before it, beside "
        "--lr_multipliers; 1: all alike.",
        lower_bound=0.0,
        upper_bound=1.0,
    )
    warmup_epochs: float = flag(
        0.0, "Number of first epochs in which the backbone is frozen; 0: none.", lower_bound=0.0
    )
    freeze_until: int = flag(
        0,
        "Number of first steps in which the backbone is frozen and its gradients are not computed, which takes less "
        "time; 0: none.",
        lower_bound=0,
    )
    decay_biases_and_norms: bool = flag(True, "Whether the optimizer's weight_decay applies to biases and norms.")
    clip_norm: float = flag(0.0, "Maximum norm of the gradient of all weights; 0: no limit.", lower_bound=0.0)
    ema: float = flag(
        0.0,
        "Decay, such as 0.999, of a moving average of the weights, which is evaluated and saved instead; 0: none.",
        lower_bound=0.0,
        upper_bound=0.999999,
    )
    blend: bool = flag(
        False,
        "At the end of a run from pretrained weights, try means of the first and the final weights, and take the best "
        "one as the best model if it beats all others.",
    )
