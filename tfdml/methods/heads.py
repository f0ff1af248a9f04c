"""Methods with heads on one backbone: one embedding, several learners, several depths, or the features alone."""

from collections.abc import Sequence
from typing import Annotated, Unpack

import keras
import tensorflow as tf

from pipelines.preprocessing import declared_by
from tfdml.functional.checks import at_least_float32
from tfdml.functional.distances import unit_length
from tfdml.heads import Linear
from tfdml.layers.embedding import EmbeddingHead, MultilevelEmbedding, at_unit_length, pooled_places
from tfdml.methods.embedding_model import EmbeddingModel
from tfdml.methods.ensembles import Ensemble
from tfdml.methods.step.parts import AnyBackbone, BackboneModel, InitialMask, MethodArguments, MethodHead, endpoints_of
from tfdml.registry import register
from tfdml.registry.arguments import Count, FrozenBatchNorm, NotNegative, Text, several, text


@register("method", "single")
class Single(EmbeddingModel):
    """One learner: backbone, head, one linear layer.

    Example: `Single(keras.applications.ResNet50(include_top=False), embedding_size=128)`.

    Args:
        backbone: Keras model from images `[B, H, W, 3]` to features `[B, h, w, c]`, `[B, tokens, c]` or `[B, c]`.
        embedding_size: dimensions of the embedding.
        head: one of `tfdml.heads`: the layers before the linear layer.
        freeze_batch_norm: `statistics` or `all` of the backbone's batch norm stays as it is, or `none`.
        normalize: whether embeddings are brought to unit length. Lifted Structure leaves them as they are, and
            compares them by Euclidean distance: `--protocol="self_retrieval(distance='euclidean')"`.
    """

    def __init__(
        self,
        backbone: AnyBackbone,
        embedding_size: Count = 128,
        head: MethodHead = Linear(),
        freeze_batch_norm: FrozenBatchNorm = "none",
        normalize: bool = True,
        **kwargs: Unpack[MethodArguments],
    ):
        super().__init__(backbone, freeze_batch_norm, head, **kwargs)
        self.embedding_size = embedding_size
        self.normalize = normalize
        features = head.make_layer(name="features")
        self.head = EmbeddingHead(embedding_size, features, normalize=normalize, name="embedding")

    def embedding_layers(self) -> list[keras.layers.Layer]:
        return [self.head]

    def places(self, images) -> tuple[tf.Tensor, tf.Tensor]:
        return self.head.places(self.backbone(images, training=False))

    def learner_embeddings(self, images, training=False) -> tf.Tensor:
        return self.head(self.backbone(images, training=training), training=training)[:, None, :]

    def get_config(self):
        return {**super().get_config(), "embedding_size": self.embedding_size, "normalize": self.normalize}


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
        options = {"attention": attention, "attention_depth": attention_depth, "initial_mask": initial_mask}
        self._attention_options = options

    def get_config(self):
        return {**super().get_config(), **self._attention_options}


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


@register("method", "multilevel")
class Multilevel(EmbeddingModel):
    """One learner at each of several endpoints, each with the loss of its own; side by side for retrieval.

    The embeddings L, M and H of Ranked List Loss (Sec. 4.1.3), or some of them. A level is the same alone as beside
    others. With auxiliary levels all images must have the same size.

    Args:
        backbone: one of `tfdml.backbones`, or a functional Keras model.
        embedding_size: dimensions of all levels together, which have the same number each. The paper has 512 for each
            level, so the default is for three.
        endpoints: names of the backbone's endpoints, from shallow to deep; None: the default of the backbone,
            for `bn_inception` the paper's `inception_3c`, `inception_4e` and `inception_5b`, for networks without
            endpoints of their own the last three stages.
        reduced: channels that auxiliary levels are reduced to.
        hidden: units of their hidden layers.
        auxiliary: names of the endpoints whose levels are auxiliary, see `tfdml.layers.MultilevelEmbedding`; None: all
            but the output of the backbone.
        head: one of `tfdml.heads`, see `Single`, of each level.
        freeze_batch_norm: `statistics` or `all` of the backbone's batch norm stays as it is, or `none`.
    """

    def __init__(
        self,
        backbone: BackboneModel,
        embedding_size: Count = 1536,
        endpoints: Annotated[Sequence[str], several(text())] | None = None,
        reduced: Count = 128,
        hidden: Count = 1024,
        auxiliary: Annotated[Sequence[str], several(text(), at_least=0)] | None = None,
        head: MethodHead = Linear(),
        freeze_batch_norm: FrozenBatchNorm = "none",
        **kwargs: Unpack[MethodArguments],
    ):
        known = endpoints_of(backbone, self)
        super().__init__(backbone, freeze_batch_norm, head, **kwargs)
        self.embedding_size = embedding_size
        self.endpoints = tuple(known.method_default("levels") if endpoints is None else endpoints)
        if len(set(self.endpoints)) < len(self.endpoints):
            raise ValueError(f"Expected each endpoint once, received endpoints={self.endpoints}.")
        self.levels = known.taps(self.endpoints)
        if unknown := set(auxiliary or ()) - set(self.endpoints):
            raise ValueError(
                f"Expected auxiliary to name some of the endpoints {', '.join(self.endpoints)}, received "
                f"{min(unknown)!r}."
            )
        if auxiliary is None:
            (output,) = self.backbone.outputs
            levels = zip(self.endpoints, self.levels.outputs, strict=True)
            auxiliary = [name for name, features in levels if features is not output]
        self.auxiliary = tuple(auxiliary)
        self._branch_options = {"reduced": reduced, "hidden": hidden}
        self.head = MultilevelEmbedding(
            embedding_size,
            features=head.make_layer(name="features"),
            auxiliary=tuple(name in self.auxiliary for name in self.endpoints),
            name="embedding",
            **self._branch_options,
        )

    def embedding_layers(self) -> list[keras.layers.Layer]:
        return [self.head]

    def learning_variables(self) -> list[keras.Variable]:
        # The part of the backbone behind the deepest level has no gradient.
        levels = {id(variable) for variable in self.levels.variables}
        behind = {id(variable) for variable in self.backbone.variables} - levels
        return [variable for variable in self.trainable_variables if id(variable) not in behind]

    def learner_embeddings(self, images, training=False) -> tf.Tensor:
        # Of one endpoint, Keras gives the tensor, not a list.
        levels = keras.tree.flatten(self.levels(images, training=training))
        return self.head(levels, training=training)

    def get_config(self):
        own = {"embedding_size": self.embedding_size, "endpoints": self.endpoints, "auxiliary": self.auxiliary}
        return {**super().get_config(), **own, **self._branch_options}


@register("method", "features")
class Features(EmbeddingModel):
    """One learner: the pooled features of the backbone, without a linear layer.

    What a pretrained backbone offers before any training, or trained like other methods. Has as many dimensions as the
    backbone has features.

    Example: `Features(keras.applications.ResNet50(include_top=False))` has 2,048 dimensions.

    Args:
        backbone: Keras model from images `[B, H, W, 3]` to features `[B, h, w, c]`, `[B, tokens, c]` or `[B, c]`.
        head: one of `tfdml.heads`: the layers behind the backbone.
        freeze_batch_norm: `statistics` or `all` of the backbone's batch norm stays as it is, or `none`.
    """

    def __init__(
        self,
        backbone: AnyBackbone,
        head: MethodHead = Linear(),
        freeze_batch_norm: FrozenBatchNorm = "none",
        **kwargs: Unpack[MethodArguments],
    ):
        super().__init__(backbone, freeze_batch_norm, head, **kwargs)
        self.features = head.make_layer(name="features")

    def embedding_layers(self) -> list[keras.layers.Layer]:
        return [self.features]

    def places(self, images) -> tuple[tf.Tensor, tf.Tensor]:
        parts, rest = pooled_places(self.features, self.backbone(images, training=False))
        return at_unit_length(parts[:, :, :, None], rest[:, None])

    def learner_embeddings(self, images, training=False) -> tf.Tensor:
        features = self.features(self.backbone(images, training=training), training=training)
        return unit_length(at_least_float32(features))[:, None, :]


PARTS = ("features", "trained")


class JoinedArguments(MethodArguments, total=False):
    """Arguments that `Joined` passes on; files have the second, too."""

    freeze_batch_norm: FrozenBatchNorm


@keras.saving.register_keras_serializable(package="tfdml")
class Joined(EmbeddingModel):
    """Embeds what another model makes of images: `trained(features(images))`.

    Example: `Joined(tfdml.Features(backbone), tfdml.load("runs/head").model)`.

    Args:
        features: model from images to features `[B, D]`, such as `tfdml.Features`; the result takes its preprocessing.
        trained: model of a method with the backbone `Identity(D)`, which was trained on such features.
    """

    def __init__(self, features: EmbeddingModel, trained: EmbeddingModel, **kwargs: Unpack[JoinedArguments]):
        super().__init__(**{"preprocessing": features.preprocessing, **kwargs})
        dims = declared_by(trained).get("vector_dims")
        found = features(keras.KerasTensor((None, *self.preprocessing.image_shape))).shape[-1]
        if dims != found:
            takes = f"features of {dims} dimensions" if dims else "images, no stored features"
            raise ValueError(f"The trained model takes {takes}; the network computes features of {found}.")
        self.features, self.trained = features, trained
        self.normalize = trained.normalize

    def embedding_layers(self) -> list[keras.layers.Layer]:
        return self.trained.embedding_layers()

    def learner_embeddings(self, images, training=False) -> tf.Tensor:
        return self.trained.learner_embeddings(self.features(images, training=training), training=training)

    def get_config(self):
        parts = {name: keras.saving.serialize_keras_object(getattr(self, name)) for name in PARTS}
        return {**super().get_config(), **parts}

    @classmethod
    def from_config(cls, config, custom_objects=None):
        parts = {name: config[name] for name in PARTS}
        parts = keras.saving.deserialize_keras_object(parts, custom_objects=custom_objects)
        return super().from_config({**config, **parts})
