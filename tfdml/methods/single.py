"""One embedding: the plain method, and the baseline of the others."""

from typing import Unpack

import keras
import tensorflow as tf

from tfdml.heads import Linear
from tfdml.layers.embedding import EmbeddingHead
from tfdml.methods.embedding_model import EmbeddingModel
from tfdml.methods.method_arguments import AnyBackbone, MethodArguments, MethodHead
from tfdml.registry import register
from tfdml.registry.arguments import Count, FrozenBatchNorm


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
