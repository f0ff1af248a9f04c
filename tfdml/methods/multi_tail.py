"""M-tails, which Attention-based Ensemble is compared with."""

from typing import Unpack

from tfdml.heads import Linear
from tfdml.methods.branched import Ensemble
from tfdml.methods.method_arguments import BackboneModel, MethodArguments, MethodHead
from tfdml.registry import register
from tfdml.registry.arguments import Count, FrozenBatchNorm, NotNegative, Text


@register("method", "multi_tail")
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
        backbone: BackboneModel,
        embedding_size: Count = 512,
        learners: Count = 8,
        branch: Text | None = None,
        divergence_weight: NotNegative = 1.0,
        divergence_margin: NotNegative = 1.0,
        head: MethodHead = Linear(),
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
