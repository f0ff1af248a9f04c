"""The features of a backbone as the embedding, without a linear layer."""

from typing import Unpack

import keras
import tensorflow as tf

from tfdml.functional.checks import at_least_float32
from tfdml.functional.distances import unit_length
from tfdml.heads import Linear
from tfdml.layers.embedding import at_unit_length, pooled_places
from tfdml.methods.embedding_model import EmbeddingModel
from tfdml.methods.method_arguments import AnyBackbone, MethodArguments, MethodHead
from tfdml.registry import register
from tfdml.registry.arguments import FrozenBatchNorm


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
