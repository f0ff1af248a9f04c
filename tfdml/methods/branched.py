"""Base of methods whose learners are made from one backbone, cut in two."""

from typing import Self, Unpack

import keras
import tensorflow as tf
from keras import ops

from tfdml.functional.statistics import divergence_loss
from tfdml.heads import Head
from tfdml.layers.copies import copied, perturb_kernels
from tfdml.layers.embedding import EmbeddingHead, size_of_slice
from tfdml.layers.tokens import AttentionMasks
from tfdml.methods.embedding_model import EmbeddingModel
from tfdml.methods.method_arguments import MethodArguments, endpoints_of
from tfdml.registry.arguments import FrozenBatchNorm, Tensor


class Ensemble(EmbeddingModel):
    """M learners that share the part S of a backbone, up to an endpoint, or the part G behind it, or both.

    Learners that do not share a part have copies of it, which start from the backbone's weights. Optional masks
    between the parts tell learners apart: equation (7) of Attention-based Ensemble.

    Args:
        backbone: one of `tfdml.backbones`, or a functional Keras model.
        embedding_size: dimensions of all learners together.
        learners: number M.
        branch: the endpoint where S ends; None: the default of the backbone.
        shares_first, shares_second: whether S and G are shared.
        attention_depth: blocks of the backbone, behind the branch, whose copy looks at S before the masks; 0: no masks.
        initial_mask: value around which masks begin.
        divergence_weight, divergence_margin: lambda of equation (8) and margin of (9).
        head: one of `tfdml.heads`, see `Single`, of each embedding layer.
        freeze_batch_norm: `statistics` or `all` of the backbone's batch norm stays as it is, or `none`.
    """

    def __init__(
        self,
        backbone: keras.Model,
        embedding_size: int,
        learners: int,
        branch: str | None,
        *,
        shares_first: bool = True,
        shares_second: bool = True,
        attention_depth: int = 0,
        initial_mask: float = 0.5,
        divergence_weight: float = 0.0,
        divergence_margin: float = 1.0,
        head: Head,
        freeze_batch_norm: FrozenBatchNorm = "none",
        **kwargs: Unpack[MethodArguments],
    ):
        endpoints = endpoints_of(backbone, self)
        super().__init__(backbone, freeze_batch_norm, head, **kwargs)
        branch = endpoints.method_default("branch") if branch is None else branch
        size_of_each = size_of_slice(embedding_size, learners)
        self.embedding_size, self.learners, self.branch = embedding_size, learners, branch
        self.divergence_weight, self.divergence_margin = divergence_weight, divergence_margin
        first, second = endpoints.split_at(branch)
        self.attention = self.masks = None
        if attention_depth:
            blocks = endpoints.blocks_after(branch, attention_depth)
            self.attention = copied(blocks, "attention", keep_resolution=True)
            self.masks = AttentionMasks(learners, first.output.shape[-1], initial_mask, name="masks")
        self.firsts = self._parts(first, "first", shares_first)
        for k, copy in enumerate(self.firsts[1:], 1):
            # Equal parts in front of one that is shared would get equal gradients, and stay equal.
            perturb_kernels(copy, seed=k)
        self.seconds = self._parts(second, "second", shares_second)
        self.heads = [
            EmbeddingHead(size_of_each, head.make_layer(name="features"), name=f"embedding_{k}")
            for k in range(len(self.seconds))
        ]

    def embedding_layers(self) -> list[keras.layers.Layer]:
        return self.heads

    def pictures(self) -> list[str]:
        return ["attention"] if self.masks else []

    def backbones(self) -> list[keras.layers.Layer]:
        copies = [*self.firsts[1:], *self.seconds[1:], *([self.attention] if self.attention else [])]
        return [self.backbone, *copies]

    def learner_features(self, images: Tensor, training: bool = False) -> tf.Tensor:
        """Features at the branch, `[B, M, h, w, c]`, masked; `[B, 1, h, w, c]` where all learners have the same."""
        found = [first(images, training=training) for first in self.firsts]
        features = ops.stack(found, axis=1)
        if self.attention:
            masks = self.masks(self.attention(found[0], training=training))
            if masks.shape[2:4] != features.shape[2:4]:
                raise ValueError(
                    f"Attention gives masks of {masks.shape[2:4]} positions for features of {features.shape[2:4]}: its "
                    f"copy of {self.backbone.name} behind {self.branch!r} still reduces them. Choose another branch, "
                    "or a smaller attention_depth."
                )
            features *= ops.cast(masks, features.dtype)
        return features

    def attention_masks(self, images: Tensor) -> tf.Tensor:
        """The masks `[B, M, h, w, c]` of images."""
        return self.masks(self.attention(self.firsts[0](images)))

    def learner_embeddings(self, images, training=False) -> tf.Tensor:
        features = self.learner_features(images, training)
        if len(self.seconds) > 1:
            each = [features[:, min(k, features.shape[1] - 1)] for k in range(self.learners)]
            parts = zip(each, self.seconds, self.heads, strict=True)
            embeddings = [head(second(part, training=training), training=training) for part, second, head in parts]
            return ops.stack(embeddings, axis=1)
        # One call for all learners, folded into the batch.
        folded = ops.reshape(features, (-1, *ops.shape(features)[2:]))
        embeddings = self.heads[0](self.seconds[0](folded, training=training), training=training)
        return ops.reshape(embeddings, (-1, self.learners, embeddings.shape[-1]))

    def places(self, images) -> tuple[tf.Tensor, tf.Tensor]:
        features, found = self.learner_features(images), []
        for k in range(self.learners):
            part = features[:, min(k, features.shape[1] - 1)]
            second, head = (each[min(k, len(each) - 1)] for each in (self.seconds, self.heads))
            found.append(head.places(second(part, training=False)))
        return tuple(ops.concatenate(values, axis=-2) for values in zip(*found, strict=True))

    def of_one_learner(self) -> Self:
        """A model with one such learner, new: what a learner costs alone."""
        one = {"learners": 1, "embedding_size": self.embedding_size // self.learners}
        return type(self).from_config({**self.get_config(), **one})

    def loss_values(self, batch, learners, training=False) -> tf.Tensor:
        """Equation (8): the loss of each anchor, summed over learners, and the divergence of each image's learners."""
        values = super().loss_values(batch, learners, training)
        if not self.divergence_weight:
            return values
        return values + self.divergence_weight * divergence_loss(learners, margin=self.divergence_margin)

    def get_config(self):
        own = {"embedding_size": self.embedding_size, "learners": self.learners, "branch": self.branch}
        divergence = {"divergence_weight": self.divergence_weight, "divergence_margin": self.divergence_margin}
        return {**super().get_config(), **own, **divergence}

    def _parts(self, part, name, shared):
        """The part itself for the first learner, and for the others either the same or copies."""
        return [part, *(copied(part, f"{name}{k}") for k in range(1, 1 if shared else self.learners))]
