"""M-heads, which Attention-based Ensemble is compared with."""

from typing import Unpack

import keras

from tfdml.heads import Head, Linear
from tfdml.methods.branched import Ensemble
from tfdml.methods.method_arguments import ATTENTION, ENSEMBLE, MethodArguments, endpoints_of
from tfdml.registry.annotations import FrozenBatchNorm
from tfdml.registry.parts import register


@register("method", "multi_head", **ATTENTION, **ENSEMBLE)
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
        backbone: keras.Model,
        embedding_size: int = 512,
        learners: int = 8,
        attention: bool = False,
        branch: str | None = None,
        attention_depth: int | None = None,
        initial_mask: float = 0.5,
        divergence_weight: float = 0.0,
        divergence_margin: float = 1.0,
        head: Head = Linear(),
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
