"""M-heads, which Attention-based Ensemble is compared with."""

from typing import Unpack

from tfdml.heads import Linear
from tfdml.methods.branched import Ensemble
from tfdml.methods.method_arguments import BackboneModel, InitialMask, MethodArguments, MethodHead, endpoints_of
from tfdml.registry import register
from tfdml.registry.arguments import Count, FrozenBatchNorm, NotNegative, Text


@register("method", "multi_head")
class MultiHead(Ensemble):
    """Learners that share the backbone up to `branch`, each with the rest of it and a linear layer of its own.

    `B_m(x) = G_m(S(x))`, equation (4) of Attention-based Ensemble; with attention `G_m(S(x) * A_m(S(x)))`, M-heads+att
    of its supplement. In the papers' tables without divergence loss, but for one row.

    Args:
        backbone: one of `tfdml.backbones`, or a functional Keras model.
        embedding_size: dimensions of all learners together.
        learners: number M.
        attention: whether each has a mask.
        branch, attention_depth, initial_mask, divergence_weight, divergence_margin, head, freeze_batch_norm: see
            `AttentionEnsemble`.
    """

    def __init__(
        self,
        backbone: BackboneModel,
        embedding_size: Count = 512,
        learners: Count = 8,
        attention: bool = False,
        branch: Text | None = None,
        attention_depth: Count | None = None,
        initial_mask: InitialMask = 0.5,
        divergence_weight: NotNegative = 0.0,
        divergence_margin: NotNegative = 1.0,
        head: MethodHead = Linear(),
        freeze_batch_norm: FrozenBatchNorm = "none",
        **kwargs: Unpack[MethodArguments],
    ):
        if attention and attention_depth is None:
            attention_depth = endpoints_of(backbone, self).method_default("attention_depth")
        if not attention and (attention_depth is not None or initial_mask != 0.5):
            raise ValueError(
                f"attention_depth={attention_depth} and initial_mask={initial_mask} have no effect without masks. "
                "Pass attention=True, or leave them out."
            )
        super().__init__(
            backbone,
            embedding_size,
            learners,
            branch,
            shares_second=False,
            attention_depth=attention_depth if attention else 0,
            initial_mask=initial_mask,
            divergence_weight=divergence_weight,
            divergence_margin=divergence_margin,
            head=head,
            freeze_batch_norm=freeze_batch_norm,
            **kwargs,
        )
        self._attention_options = {
            "attention": attention,
            "attention_depth": attention_depth,
            "initial_mask": initial_mask,
        }

    def get_config(self):
        return {**super().get_config(), **self._attention_options}
