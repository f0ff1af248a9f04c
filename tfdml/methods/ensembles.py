"""Attention-based Ensemble (ECCV 2018), and ensembles of separately trained networks."""

from collections.abc import Sequence
from typing import Self, Unpack

import keras
import numpy as np
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
    """Ensemble of separately trained models with concatenated embeddings.

    Use it to combine several runs: the similarity of two images is the weighted mean of their similarities in the
    members, `s(x, y) = sum_e alpha_e s(x_e, y_e)`, equation (1) of EDMS, where `x_e` is the L2-normalized embedding of
    member e. The embedding for retrieval is `[sqrt(alpha_1) x_1, sqrt(alpha_2) x_2, ...]`. The weights are divided by
    their sum, so it has unit length. Each member counts as one learner of this model. If members have different
    embedding sizes, the shorter embeddings are padded with zeros, which changes no similarity.

    Args:
        members: List of tfdml models that expect the same images.
        member_weights: List of positive numbers, the weight `alpha` of each member. If `None`, all members have the
            same weight. Defaults to `None`.
        preprocessing: `tfdml.Preprocessing` of the images. If `None`, it is the preprocessing of the first member.
            Defaults to `None`.
        **kwargs: `name`, `trainable` and `dtype` of `keras.Model`.

    Raises:
        ValueError: If a member is not a tfdml model, or if the weights are not one positive number per member.

    Example:

    ```python
    members = [tfdml.Single(tfdml.backbones.Small(width=4), embedding_size=8) for _ in range(2)]
    model = tfdml.methods.MemberEnsemble(members)  # To combine runs, use tfdml.load("runs/a").model as a member.
    model.predict(np.random.uniform(-2, 2, (4, 32, 32, 3)), verbose=0).shape  # (4, 16)
    ```
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
                raise ValueError(
                    f"members must be tfdml models, such as tfdml.Single. Received: {type(member).__name__}."
                )
        # Use float32, because a half-precision policy would round the images for all members.
        super().__init__(preprocessing=preprocessing or members[0].preprocessing, **{"dtype": "float32", **kwargs})
        self.members = list(members)
        self.member_weights = [float(weight) for weight in member_weights or [1.0] * len(members)]
        if len(self.member_weights) != len(members) or min(self.member_weights) <= 0:
            raise ValueError(
                "member_weights must have one positive number per member. Expected "
                f"{len(members)} weights. Received: member_weights={self.member_weights}."
            )
        # The first backbone declares the preprocessing of the images. The members themselves save and freeze theirs.
        self.backbone = members[0].backbone
        self._scales = np.sqrt(np.divide(self.member_weights, sum(self.member_weights))).astype(np.float32)

    def backbones(self) -> list[keras.layers.Layer]:
        return []

    def learner_embeddings(self, images, training=False) -> Tensor:
        rows = [unit_length(at_least_float32(member(images, training=training))) for member in self.members]
        size = max(of_member.shape[-1] for of_member in rows)
        return ops.stack([ops.pad(each, ((0, 0), (0, size - each.shape[-1]))) for each in rows], axis=1)

    def for_retrieval(self, learners) -> Tensor:
        return ops.reshape(learners * self._scales[:, None], (-1, learners.shape[1] * learners.shape[2]))

    def get_config(self):
        # The config of EmbeddingModel would save the backbone of the first member twice.
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
    """Base class of ensembles of M learners that share one or both of two parts of a backbone.

    The part S contains the layers up to an endpoint, and the part G all layers after it. If a part is not shared, each
    learner has its own copy, which starts from the backbone's weights. Optional attention masks between the parts make
    the learners differ, as in equation (7) of Attention-based Ensemble.

    Args:
        backbone: One of `tfdml.backbones`, or a functional Keras model.
        embedding_size: Integer. Number of dimensions of all learners together.
        learners: Integer. Number M of learners.
        branch: String. Endpoint at which S ends. If `None`, it is the default of the backbone.
        shares_first, shares_second: Booleans. Whether S and G are shared. Default to `True`.
        attention_depth: Integer. Number of blocks behind the branch that the attention module copies. With `0`, the
            model has no masks. Defaults to `0`.
        initial_mask: Float. Value around which the masks start. Defaults to `0.5`.
        divergence_weight: Float. Weight of the divergence loss, lambda in equation (8). Defaults to `0.0`.
        divergence_margin: Float. Margin of equation (9). Defaults to `1.0`.
        head: One of `tfdml.heads`: the layers before each linear layer.
        freeze_batch_norm: What to freeze in the batch normalization layers of the backbone: `"none"`, `"statistics"`
            (moving mean and variance) or `"all"` (scale and offset as well). Defaults to `"none"`.
        **kwargs: `preprocessing` of the images, see `EmbeddingModel`, and `name`, `trainable` and `dtype` of
            `keras.Model`.
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
            # Identical copies before a shared part would receive identical gradients and stay identical.
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

    def learner_features(self, images: Tensor, training: bool = False) -> Tensor:
        """Computes the features of each learner at the branch, multiplied by the masks, if any.

        Args:
            images: `[B, H, W, 3]` preprocessed images.
            training: Boolean. Whether the model is being trained. Defaults to `False`.

        Returns:
            Tensor of shape `[B, M, h, w, c]`, or `[B, 1, h, w, c]` if all learners have the same features.
        """
        of_firsts = [first(images, training=training) for first in self.firsts]
        features = ops.stack(of_firsts, axis=1)
        if self.attention:
            masks = self.masks(self.attention(of_firsts[0], training=training))
            if masks.shape[2:4] != features.shape[2:4]:
                raise ValueError(
                    f"The attention masks have {masks.shape[2:4]} positions, but the features have "
                    f"{features.shape[2:4]}, because the attention module's copy of the layers of {self.backbone.name} "
                    f"behind {self.branch!r} reduces the resolution. Use another branch or a smaller attention_depth."
                )
            features = features * ops.cast(masks, features.dtype)
        return features

    def attention_masks(self, images: Tensor) -> Tensor:
        """Computes the attention masks of the learners.

        Args:
            images: `[B, H, W, 3]` preprocessed images.

        Returns:
            Tensor of shape `[B, M, h, w, c]` with values from 0 to 1.
        """
        return self.masks(self.attention(self.firsts[0](images)))

    def learner_embeddings(self, images, training=False) -> Tensor:
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

    def places(self, images) -> tuple[Tensor, Tensor]:
        features, of_learners = self.learner_features(images), []
        for k in range(self.learners):
            part = features[:, min(k, features.shape[1] - 1)]
            second, head = (each[min(k, len(each) - 1)] for each in (self.seconds, self.heads))
            of_learners.append(head.places(second(part, training=False)))
        return tuple(ops.concatenate(values, axis=-2) for values in zip(*of_learners, strict=True))

    def of_one_learner(self) -> Self:
        """Returns a new model with one such learner, to measure its cost."""
        one = {"learners": 1, "embedding_size": self.embedding_size // self.learners}
        return type(self).from_config({**self.get_config(), **one})

    def loss_values(self, batch, learners, training=False) -> Tensor:
        """Computes equation (8): each anchor's loss, summed over learners, plus each image's divergence loss."""
        values = super().loss_values(batch, learners, training)
        if not self.divergence_weight:
            return values
        return values + self.divergence_weight * divergence_loss(learners, margin=self.divergence_margin)

    def get_config(self):
        own = {"embedding_size": self.embedding_size, "learners": self.learners, "branch": self.branch}
        divergence = {"divergence_weight": self.divergence_weight, "divergence_margin": self.divergence_margin}
        return {**super().get_config(), **own, **divergence}

    def _parts(self, part, name, shared):
        """Returns the part for the first learner, and copies of it for the others unless they share it."""
        return [part, *(copied(part, f"{name}{k}") for k in range(1, 1 if shared else self.learners))]


@register("method", "attention_ensemble")
class AttentionEnsemble(Ensemble):
    """Ensemble of learners that attend to different parts of an image through masks (Attention-based Ensemble).

    All learners share the same layers, except for a 1 x 1 convolution each, so the model has far fewer parameters than
    `MultiHead`. It computes `B_m(x) = G(S(x) * A_m(S(x)))`, equation (7) of Kim et al., Attention-based Ensemble for
    Deep Metric Learning, 2018 (ABE-M). S are the layers of the backbone up to `branch`, and G are the remaining layers
    and one linear layer. A_m is a shared copy of the blocks behind the branch, without pooling, and a 1 x 1 convolution
    of learner m. The model is trained with equation (8): the sum of the learners' losses plus a divergence loss, which
    keeps the learners different.

    Args:
        backbone: One of `tfdml.backbones`, or a functional Keras model.
        embedding_size: Integer. Number of dimensions of all learners together. Defaults to `512`.
        learners: Integer. Number M of learners. Defaults to `8`.
        branch: String. Endpoint at which S ends. If `None`, it is the default of the backbone: for `googlenet` the
            paper's `pool3`, and for networks that declare no endpoints `stage4`. Defaults to `None`.
        attention_depth: Integer. Number of blocks of the backbone that the attention module copies. If `None`, it is
            the default of the backbone, which is the paper's 5 for `googlenet`. Defaults to `None`.
        initial_mask: Float. Value around which the masks start. Values near 1 change a pretrained network less. The
            paper has no such argument. A sigmoid without a bias starts near 0.5. Defaults to `0.5`.
        divergence_weight: Float. Weight of the divergence loss, lambda in equation (8). Defaults to `1.0`.
        divergence_margin: Float. Margin of equation (9). With a larger margin, learners must differ more. Defaults to
            `1.0`.
        head: One of `tfdml.heads`: the layers between the backbone and the linear layer. Defaults to
            `tfdml.heads.Linear()`, which averages over positions.
        freeze_batch_norm: What to freeze in the batch normalization layers of the backbone: `"none"`, `"statistics"`
            (moving mean and variance) or `"all"` (scale and offset as well). Defaults to `"none"`.
        **kwargs: `preprocessing` of the images, see `EmbeddingModel`, and `name`, `trainable` and `dtype` of
            `keras.Model`.

    Raises:
        ValueError: If the backbone cannot be divided at `branch`.

    Example:

    ```python
    backbone = tfdml.backbones.Small(width=4)
    model = tfdml.AttentionEnsemble(backbone, embedding_size=16, learners=2, branch="stage2", attention_depth=1)
    model.compile("adam", tfdml.losses.Triplet())
    images, labels = np.random.uniform(-2, 2, (8, 32, 32, 3)), np.array([0, 0, 1, 1, 2, 2, 3, 3])
    history = model.fit(images, labels, verbose=0)
    model.predict(images, verbose=0).shape  # (8, 16)
    ```
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
