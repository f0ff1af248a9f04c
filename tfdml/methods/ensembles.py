"""Attention-based Ensemble (ECCV 2018), and ensembles of networks that were trained separately."""

from collections.abc import Sequence
from typing import Self, Unpack

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from pipelines.preprocessing import Preprocessing, VectorPreprocessing
from tfdml.functional.checks import at_least_float32
from tfdml.functional.distances import unit_length
from tfdml.functional.statistics import divergence_loss
from tfdml.heads import Head, Linear
from tfdml.layers.copies import copied, perturb_kernels
from tfdml.layers.embedding import EmbeddingHead, size_of_slice
from tfdml.layers.norms import layers_in
from tfdml.layers.tokens import AttentionMasks
from tfdml.methods.embedding_model import EmbeddingModel
from tfdml.methods.step.parts import BackboneModel, InitialMask, MethodArguments, MethodHead, endpoints_of
from tfdml.registry import register
from tfdml.registry.arguments import Count, FrozenBatchNorm, ModelArguments, NotNegative, Tensor, Text


@keras.saving.register_keras_serializable(package="tfdml")
class MemberEnsemble(EmbeddingModel):
    """The members of an ensemble side by side: `s(x, y) = sum_e alpha_e s(x_e, y_e)`, equation (1) of EDMS.

    `x_e` is the embedding of member e at unit length, as a whole where the member has several learners itself. The
    embedding for retrieval is `[sqrt(alpha_1) x_1, sqrt(alpha_2) x_2, ...]`, with weights that are divided by their
    sum, so that it has unit length. A learner of this model is a member; the embeddings of members with fewer
    dimensions than the largest end with zeros, which change no similarity.

    Example: `MemberEnsemble([tfdml.load(run).model for run in ("runs/a", "runs/b")])`.

    Args:
        members: list of models of methods that take the same images.
        member_weights: `alpha`, a positive number for each member; None: 1 for all.
        preprocessing: `tfdml.Preprocessing` of the images; None: that of the first member.
    """

    def __init__(
        self,
        members: Sequence[EmbeddingModel],
        member_weights: Sequence[float] | None = None,
        preprocessing: Preprocessing | VectorPreprocessing | None = None,
        **kwargs: Unpack[ModelArguments],
    ):
        for member in members:
            if not isinstance(member, EmbeddingModel):
                raise ValueError(f"Expected members of tfdml.methods, received a {type(member).__name__}.")
        # What members compute is kept as it is: a policy of half precision would round the images for all of them.
        super().__init__(preprocessing=preprocessing or members[0].preprocessing, **{"dtype": "float32", **kwargs})
        self.members = list(members)
        self.member_weights = [float(weight) for weight in member_weights or [1.0] * len(members)]
        if len(self.member_weights) != len(members) or min(self.member_weights) <= 0:
            raise ValueError(
                f"Expected a positive weight for each of {len(members)} members, received {self.member_weights}."
            )
        # It declares how images are prepared, for all members. They freeze and save their own.
        self.backbone = members[0].backbone
        self._scales = np.sqrt(np.divide(self.member_weights, sum(self.member_weights))).astype(np.float32)

    def backbones(self) -> list[keras.layers.Layer]:
        return []

    def learner_embeddings(self, images, training=False) -> tf.Tensor:
        rows = [unit_length(at_least_float32(member(images, training=training))) for member in self.members]
        size = max(of_member.shape[-1] for of_member in rows)
        return ops.stack([ops.pad(each, ((0, 0), (0, size - each.shape[-1]))) for each in rows], axis=1)

    def for_retrieval(self, learners) -> tf.Tensor:
        return ops.reshape(learners * self._scales[:, None], (-1, learners.shape[1] * learners.shape[2]))

    def get_config(self):
        # Not that of the base, which would save the first member's backbone twice.
        config = super(EmbeddingModel, self).get_config()
        config["members"] = [keras.saving.serialize_keras_object(member) for member in self.members]
        preprocessing = self.preprocessing and self.preprocessing.get_config()
        return {**config, "member_weights": self.member_weights, "preprocessing": preprocessing}

    @classmethod
    def from_config(cls, config, custom_objects=None):
        members = [
            keras.saving.deserialize_keras_object(member, custom_objects=custom_objects) for member in config["members"]
        ]
        with layers_in(config.get("dtype")):
            return cls(**{**config, "members": members})


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
        of_firsts = [first(images, training=training) for first in self.firsts]
        features = ops.stack(of_firsts, axis=1)
        if self.attention:
            masks = self.masks(self.attention(of_firsts[0], training=training))
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
        features, of_learners = self.learner_features(images), []
        for k in range(self.learners):
            part = features[:, min(k, features.shape[1] - 1)]
            second, head = (each[min(k, len(each) - 1)] for each in (self.seconds, self.heads))
            of_learners.append(head.places(second(part, training=False)))
        return tuple(ops.concatenate(values, axis=-2) for values in zip(*of_learners, strict=True))

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
