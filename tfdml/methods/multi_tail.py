"""M-tails, which Attention-based Ensemble is compared with."""

from typing import Unpack

import keras

from tfdml.heads import Head, Linear
from tfdml.methods.branched import Ensemble
from tfdml.methods.method_arguments import ENSEMBLE, MethodArguments
from tfdml.registry.annotations import FrozenBatchNorm
from tfdml.registry.parts import register


@register("method", "multi_tail", **ENSEMBLE)
class MultiTail(Ensemble):
    """Learners that share the backbone from `branch` on, each with the layers before it as its own.

    `B_m(x) = G(S_m(x))`, equation (5) of Attention-based Ensemble without attention; M-tails of its supplement.

    Args:
        backbone: one of `tfdml.backbones`, or a functional Keras model.
        embedding_size: dimensions of all learners together.
        learners: number M.
        branch, divergence_weight, divergence_margin, head, freeze_batch_norm: see `AttentionEnsemble`.
    """

    def __init__(
        self,
        backbone: keras.Model,
        embedding_size: int = 512,
        learners: int = 8,
        branch: str | None = None,
        divergence_weight: float = 1.0,
        divergence_margin: float = 1.0,
        head: Head = Linear(),
        freeze_batch_norm: FrozenBatchNorm = "none",
        **kwargs: Unpack[MethodArguments],
    ):
        super().__init__(
            backbone,
            embedding_size,
            learners,
            branch,
            shares_first=False,
            divergence_weight=divergence_weight,
            divergence_margin=divergence_margin,
            head=head,
            freeze_batch_norm=freeze_batch_norm,
            **kwargs,
        )
