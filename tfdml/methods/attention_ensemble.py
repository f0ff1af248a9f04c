"""Attention-based Ensemble for Deep Metric Learning (ECCV 2018)."""

from typing import Unpack

from tfdml.heads import Linear
from tfdml.methods.branched import Ensemble
from tfdml.methods.method_arguments import BackboneModel, InitialMask, MethodArguments, MethodHead, endpoints_of
from tfdml.registry import register
from tfdml.registry.arguments import Count, FrozenBatchNorm, NotNegative, Text


@register("method", "attention_ensemble")
class AttentionEnsemble(Ensemble):
    """ABE-M: learners that look at different parts of an image, through masks, and share everything else.

    `B_m(x) = G(S(x) * A_m(S(x)))`, equation (7). S is the backbone up to `branch`, G the rest with one linear layer,
    both shared. A_m is a copy of the blocks behind the branch without pooling, shared too, and a 1 x 1 convolution of
    its own. Trained with equation (8): the sum of the learners' losses, and the divergence between learners.

    Args:
        backbone: one of `tfdml.backbones`, or a functional Keras model.
        embedding_size: dimensions of all learners together.
        learners: number M.
        branch: the endpoint where S ends; None: the default of the backbone, for `googlenet` the paper's
            `pool3`, for networks without endpoints of their own `stage4`.
        attention_depth: number of the backbone's blocks that attention copies, 1 or more; None: the default of the
            backbone, for `googlenet` the paper's 5.
        initial_mask: value around which masks begin. The paper has no such argument; 0.5 is a sigmoid's without a bias.
            Near 1 they change a pretrained network less.
        divergence_weight, divergence_margin: lambda of equation (8) and margin of (9).
        head: one of `tfdml.heads`, see `Single`.
        freeze_batch_norm: `statistics` or `all` of the backbone's batch norm stays as it is, or `none`.
    """

    def __init__(
        self,
        backbone: BackboneModel,
        embedding_size: Count = 512,
        learners: Count = 8,
        branch: Text | None = None,
        attention_depth: Count | None = None,
        initial_mask: InitialMask = 0.5,
        divergence_weight: NotNegative = 1.0,
        divergence_margin: NotNegative = 1.0,
        head: MethodHead = Linear(),
        freeze_batch_norm: FrozenBatchNorm = "none",
        **kwargs: Unpack[MethodArguments],
    ):
        if attention_depth is None:
            attention_depth = endpoints_of(backbone, self).method_default("attention_depth")
        super().__init__(
            backbone,
            embedding_size,
            learners,
            branch,
            attention_depth=attention_depth,
            initial_mask=initial_mask,
            divergence_weight=divergence_weight,
            divergence_margin=divergence_margin,
            head=head,
            freeze_batch_norm=freeze_batch_norm,
            **kwargs,
        )
        self.attention_depth = attention_depth
        self.initial_mask = initial_mask

    def get_config(self):
        return {**super().get_config(), "attention_depth": self.attention_depth, "initial_mask": self.initial_mask}
