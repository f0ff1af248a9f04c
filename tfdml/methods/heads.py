"""Methods with heads on one backbone: one embedding, several learners or feature levels, or the features alone."""

from collections.abc import Sequence
from typing import Annotated, Unpack

import keras
from keras import ops

from pipelines.preprocessing import declared_by
from tfdml.functional.checks import at_least_float32
from tfdml.functional.distances import distances, unit_length
from tfdml.functional.pairs import UNKNOWN, hardest_pairs, negative_pairs, positive_pairs
from tfdml.heads import Linear
from tfdml.layers.embedding import EmbeddingHead, MultilevelEmbedding, at_unit_length, pooled_places
from tfdml.methods.embedding_model import EmbeddingModel
from tfdml.methods.ensembles import Ensemble
from tfdml.methods.step.parts import (
    AnyBackbone,
    BackboneModel,
    InitialMask,
    MethodArguments,
    MethodHead,
    anchor_values,
    endpoints_of,
)
from tfdml.registry import register
from tfdml.registry.arguments import Count, FrozenBatchNorm, NotNegative, Tensor, Text, number, several, text
from tfdml.registry.loss_hooks import hooks_of


@register("method", "single")
class Single(EmbeddingModel):
    """Embedding model with a backbone, a pooling head and one linear layer.

    Use it as the first model for a new dataset, and as the baseline for the other methods. It works with any Keras
    backbone. Calling the model returns embeddings `[B, embedding_size]`.

    Args:
        backbone: Keras model from images `[B, H, W, 3]` to features `[B, h, w, c]`, `[B, tokens, c]` or `[B, c]`.
        embedding_size: Integer. Number of dimensions of the embedding. Defaults to `128`.
        head: One of `tfdml.heads`: the layers between the backbone and the linear layer. Defaults to
            `tfdml.heads.Linear()`, which averages over positions.
        freeze_batch_norm: What to freeze in the batch normalization layers of the backbone: `"none"`, `"statistics"`
            (moving mean and variance) or `"all"` (scale and offset as well). Defaults to `"none"`.
        normalize: Boolean. Whether embeddings are L2-normalized. Lifted Structure does not normalize them and compares
            them by Euclidean distance: `--protocol="self_retrieval(distance='euclidean')"`. Defaults to `True`.
        **kwargs: `preprocessing` of the images, see `EmbeddingModel`, and `name`, `trainable` and `dtype` of
            `keras.Model`.

    Example:

    ```python
    images, labels = np.random.uniform(-2, 2, (8, 32, 32, 3)), np.array([0, 0, 1, 1, 2, 2, 3, 3])
    model = tfdml.Single(tfdml.backbones.Small(width=4), embedding_size=16)
    model.compile("adam", tfdml.losses.Triplet())
    history = model.fit(images, labels, verbose=0)
    model.predict(images, verbose=0).shape  # (8, 16)
    ```
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

    def places(self, images) -> tuple[Tensor, Tensor]:
        return self.head.places(self.backbone(images, training=False))

    def learner_embeddings(self, images, training=False) -> Tensor:
        return self.head(self.backbone(images, training=training), training=training)[:, None, :]

    def get_config(self):
        return {**super().get_config(), "embedding_size": self.embedding_size, "normalize": self.normalize}


@register("method", "multi_head")
class MultiHead(Ensemble):
    """Ensemble of learners that share the backbone up to an endpoint and have separate layers after it.

    Use it as a baseline for `AttentionEnsemble`. It needs more memory and time, because each learner has its own copy
    of the layers behind `branch` and its own linear layer. Learner m computes `B_m(x) = G_m(S(x))`, equation (4) of
    Attention-based Ensemble, where S are the shared layers. With attention, it computes `G_m(S(x) * A_m(S(x)))`, which
    the paper's supplement calls M-heads+att. All but one row of the paper's tables use no divergence loss.

    Args:
        backbone: One of `tfdml.backbones`, or a functional Keras model.
        embedding_size: Integer. Number of dimensions of all learners together. Defaults to `512`.
        learners: Integer. Number M of learners. Defaults to `8`.
        attention: Boolean. Whether each learner has an attention mask. Defaults to `False`.
        branch, attention_depth, initial_mask, divergence_margin, head, freeze_batch_norm: see `AttentionEnsemble`.
        divergence_weight: Float. Weight of the divergence loss, lambda in equation (8). Defaults to `0.0`.
        **kwargs: `preprocessing` of the images, see `EmbeddingModel`, and `name`, `trainable` and `dtype` of
            `keras.Model`.

    Raises:
        ValueError: If the backbone cannot be divided, or if arguments of masks are set without `attention=True`.

    Example:

    ```python
    model = tfdml.MultiHead(tfdml.backbones.Small(width=4), embedding_size=16, learners=2, branch="stage2")
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
                "attention_depth and initial_mask have no effect without attention. Received: attention=False, "
                f"attention_depth={attention_depth}, initial_mask={initial_mask}. Pass attention=True, or remove them."
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
    """Ensemble of learners that have separate first layers of the backbone and share the layers after an endpoint.

    Use it as a baseline for `AttentionEnsemble`. Each learner has its own copy of the layers up to `branch`. Learner m
    computes `B_m(x) = G(S_m(x))`, equation (5) of Attention-based Ensemble without attention, where G are the shared
    layers. The paper's supplement calls it M-tails.

    Args:
        backbone: One of `tfdml.backbones`, or a functional Keras model.
        embedding_size: Integer. Number of dimensions of all learners together. Defaults to `512`.
        learners: Integer. Number M of learners. Defaults to `8`.
        branch, divergence_weight, divergence_margin, head, freeze_batch_norm: see `AttentionEnsemble`.
        **kwargs: `preprocessing` of the images, see `EmbeddingModel`, and `name`, `trainable` and `dtype` of
            `keras.Model`.

    Raises:
        ValueError: If the backbone cannot be divided.

    Example:

    ```python
    model = tfdml.MultiTail(tfdml.backbones.Small(width=4), embedding_size=16, learners=2, branch="stage2")
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
    """Embedding model with one embedding per feature level of the backbone, concatenated for retrieval.

    Use it with a pretrained backbone: combining shallow and deep features improved Recall@1 on all datasets that we
    tried. Each level has its own linear layer and its own loss, as for the embeddings L, M and H of Ranked List Loss
    (Sec. 4.1.3). Levels are independent: a level has the same embedding whether it is used alone or with others. If
    there are auxiliary levels, all images must have the same size.

    Args:
        backbone: One of `tfdml.backbones`, or a functional Keras model.
        embedding_size: Integer. Number of dimensions of all levels together. It is divided evenly among the levels. The
            default is for three levels of 512 dimensions, as in the paper. Defaults to `1536`.
        endpoints: Names of endpoints of the backbone, from shallow to deep. If `None`, it is the default of the
            backbone: for `bn_inception` the paper's `inception_3c`, `inception_4e` and `inception_5b`, and for networks
            that declare no endpoints the last three stages. Defaults to `None`.
        reduced: Integer. Number of channels to which auxiliary levels are reduced. Defaults to `128`.
        hidden: Integer. Number of units in the hidden layers of auxiliary levels. Defaults to `1024`.
        auxiliary: Names of the endpoints with auxiliary levels, see `tfdml.layers.MultilevelEmbedding`. If `None`, all
            levels are auxiliary except the output of the backbone. Defaults to `None`.
        head: One of `tfdml.heads`: the layers between the features of each level and its linear layer. Defaults to
            `tfdml.heads.Linear()`, which averages over positions.
        freeze_batch_norm: What to freeze in the batch normalization layers of the backbone: `"none"`, `"statistics"`
            (moving mean and variance) or `"all"` (scale and offset as well). Defaults to `"none"`.
        cascade: For each level, the share of the batch's pairs that it learns from, such as `(1.0, 0.5, 0.2)`, or
            `None`. These are the hardest pairs of the previous level: its farthest positives and its nearest
            negatives. This is Hard-Aware Deeply Cascaded Embedding (Yuan et al., ICCV 2017). It needs a pair-based
            loss. If `None`, every level learns from all pairs. Defaults to `None`.
        **kwargs: `preprocessing` of the images, see `EmbeddingModel`, and `name`, `trainable` and `dtype` of
            `keras.Model`.

    Raises:
        ValueError: If the backbone has no endpoint with one of the names, or if an endpoint is listed twice.

    Example:

    ```python
    backbone = tfdml.backbones.Small(width=4)
    model = tfdml.Multilevel(backbone, embedding_size=24, endpoints=("stage2", "stage3", "stage4"), auxiliary=())
    model.compile("adam", tfdml.losses.Triplet())
    images, labels = np.random.uniform(-2, 2, (8, 32, 32, 3)), np.array([0, 0, 1, 1, 2, 2, 3, 3])
    history = model.fit(images, labels, verbose=0)
    model.predict(images, verbose=0).shape  # (8, 24)
    ```
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
        cascade: Annotated[Sequence[float], several(number(above=0, at_most=1))] | None = None,
        **kwargs: Unpack[MethodArguments],
    ):
        known = endpoints_of(backbone, self)
        super().__init__(backbone, freeze_batch_norm, head, **kwargs)
        self.embedding_size = embedding_size
        self.endpoints = tuple(known.method_default("levels") if endpoints is None else endpoints)
        if len(set(self.endpoints)) < len(self.endpoints):
            raise ValueError(f"endpoints must list each endpoint only once. Received: endpoints={self.endpoints}.")
        self.levels = known.taps(self.endpoints)
        if unknown := set(auxiliary or ()) - set(self.endpoints):
            raise ValueError(
                f"auxiliary must contain only names of endpoints. Expected some of {', '.join(self.endpoints)}. "
                f"Received: {min(unknown)!r}."
            )
        if auxiliary is None:
            (output,) = self.backbone.outputs
            levels = zip(self.endpoints, self.levels.outputs, strict=True)
            auxiliary = [name for name, features in levels if features is not output]
        self.auxiliary = tuple(auxiliary)
        if cascade is not None and (len(cascade) != len(self.endpoints) or list(cascade) != sorted(cascade)[::-1]):
            raise ValueError(
                f"cascade must have one share for each of {len(self.endpoints)} endpoints, and no share may be larger "
                f"than the one before it. Received: cascade={cascade}."
            )
        self.cascade = cascade
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
        # Layers behind the deepest level do not contribute to the loss, so they have no gradient.
        levels = {id(variable) for variable in self.levels.variables}
        behind = {id(variable) for variable in self.backbone.variables} - levels
        return [variable for variable in self.trainable_variables if id(variable) not in behind]

    def learner_embeddings(self, images, training=False) -> Tensor:
        # With a single endpoint, Keras returns the tensor instead of a list.
        levels = keras.tree.flatten(self.levels(images, training=training))
        return self.head(levels, training=training)

    def loss_values(self, batch, learners, training=False) -> Tensor:
        if self.cascade is None:
            return super().loss_values(batch, learners, training)
        if self.loss_layers.learners or self.past_batches or hooks_of(self.loss).takes_levels:
            raise ValueError(
                "multilevel(cascade=...) chooses pairs of the batch. Expected a pair-based loss without variables, "
                f"such as 'contrastive', no class hierarchy and no memory. Received: loss={type(self.loss).__name__}, "
                f"memory={self.past_batches and self.past_batches.spec}."
            )
        return sum(
            anchor_values(self.loss, labels, learners[:, k])
            for k, labels in enumerate(cascaded_pairs(batch["label"], ops.stop_gradient(learners), self.cascade))
        )

    def get_config(self):
        own = {"embedding_size": self.embedding_size, "endpoints": self.endpoints, "auxiliary": self.auxiliary}
        return {**super().get_config(), **own, "cascade": self.cascade, **self._branch_options}


def cascaded_pairs(labels, learners, shares):
    """Returns the relevance `[B, B]` of pairs for each of the learners `[B, K, d]`, in which easy pairs are unknown.

    Learner k learns from the fraction `shares[k]` of the positive pairs and of the negative pairs. These are the
    hardest pairs of learner k - 1 among the pairs that it learns from.
    """
    kinds = [positive_pairs(labels), negative_pairs(labels)]
    counts, found = [ops.sum(ops.cast(pairs, "float32")) for pairs in kinds], []
    for k, share in enumerate(shares):
        if k:
            distance = distances(learners[:, k - 1])
            # Rounding must not divide the two orders of a pair.
            distance = ops.maximum(distance, ops.transpose(distance))
            hardness = zip(kinds, (distance, -distance), counts, strict=True)
            kinds = [hardest_pairs(values, pairs, ops.ceil(share * count)) for pairs, values, count in hardness]
        near, far = kinds
        found.append(ops.where(near, 1.0, ops.where(far, 0.0, UNKNOWN)))
    return found


@register("method", "features")
class Features(EmbeddingModel):
    """Embedding model with the pooled features of the backbone as the embedding, without a linear layer.

    Use it without training to measure what a pretrained backbone already achieves. You can also train it like the other
    methods. The embedding has the number of dimensions of the features, for example 2,048 for a ResNet-50.

    Args:
        backbone: Keras model from images `[B, H, W, 3]` to features `[B, h, w, c]`, `[B, tokens, c]` or `[B, c]`.
        head: One of `tfdml.heads`: the layers behind the backbone. Defaults to `tfdml.heads.Linear()`, which averages
            over positions.
        freeze_batch_norm: What to freeze in the batch normalization layers of the backbone: `"none"`, `"statistics"`
            (moving mean and variance) or `"all"` (scale and offset as well). Defaults to `"none"`.
        **kwargs: `preprocessing` of the images, see `EmbeddingModel`, and `name`, `trainable` and `dtype` of
            `keras.Model`.

    Example:

    ```python
    images = np.random.uniform(-2, 2, (8, 32, 32, 3))
    model = tfdml.Features(tfdml.backbones.Small(width=4))
    model.predict(images, verbose=0).shape  # (8, 32)
    ```
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

    def places(self, images) -> tuple[Tensor, Tensor]:
        parts, rest = pooled_places(self.features, self.backbone(images, training=False))
        return at_unit_length(parts[:, :, :, None], rest[:, None])

    def learner_embeddings(self, images, training=False) -> Tensor:
        features = self.features(self.backbone(images, training=training), training=training)
        return unit_length(at_least_float32(features))[:, None, :]


PARTS = ("features", "trained")


class JoinedArguments(MethodArguments, total=False):
    """Arguments that models of other models pass on to `EmbeddingModel`, including one that only files contain."""

    freeze_batch_norm: FrozenBatchNorm


@keras.saving.register_keras_serializable(package="tfdml")
class Joined(EmbeddingModel):
    """Embedding model that applies a model trained on stored features to the features of images.

    Use it to search with images after you trained a head on stored features: it computes `trained(features(images))`.

    Args:
        features: Model from images to features `[B, D]`, such as `tfdml.Features`. The joined model has its
            preprocessing.
        trained: tfdml model with the backbone `Identity(D)`, trained on such features.
        **kwargs: `preprocessing` of the images, see `EmbeddingModel`, and `name`, `trainable` and `dtype` of
            `keras.Model`.

    Raises:
        ValueError: If `trained` does not expect features of the size that `features` computes.

    Example:

    ```python
    preprocessing = tfdml.Preprocessing(mean=(127.5,) * 3, std=(63.75,) * 3, image_size=32)
    features = tfdml.Features(tfdml.backbones.Small(width=4), preprocessing=preprocessing)
    trained = tfdml.Single(tfdml.backbones.Identity(32), embedding_size=16)
    model = tfdml.Joined(features, trained)
    model.predict(np.random.uniform(-2, 2, (8, 32, 32, 3)), verbose=0).shape  # (8, 16)
    ```
    """

    def __init__(self, features: EmbeddingModel, trained: EmbeddingModel, **kwargs: Unpack[JoinedArguments]):
        super().__init__(**{"preprocessing": features.preprocessing, **kwargs})
        dims = declared_by(trained).get("vector_dims")
        found = features(keras.KerasTensor((None, *self.preprocessing.image_shape))).shape[-1]
        if dims != found:
            wanted = f"features of {dims} dimensions" if dims else "images instead of stored features"
            raise ValueError(
                f"The two models do not fit together. The trained model expects {wanted}. Received: a network that "
                f"computes features of {found} dimensions."
            )
        self.features, self.trained = features, trained
        self.normalize = trained.normalize

    def embedding_layers(self) -> list[keras.layers.Layer]:
        return self.trained.embedding_layers()

    def learner_embeddings(self, images, training=False) -> Tensor:
        return self.trained.learner_embeddings(self.features(images, training=training), training=training)

    def get_config(self):
        parts = {name: keras.saving.serialize_keras_object(getattr(self, name)) for name in PARTS}
        return {**super().get_config(), **parts}

    @classmethod
    def from_config(cls, config, custom_objects=None):
        parts = {name: config[name] for name in PARTS}
        parts = keras.saving.deserialize_keras_object(parts, custom_objects=custom_objects)
        return super().from_config({**config, **parts})
