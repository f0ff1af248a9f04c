"""A head that was trained on stored features, behind the network that computes them."""

from typing import Unpack

import keras
import tensorflow as tf

from pipelines.preprocessing import declared_by
from tfdml.methods.embedding_model import EmbeddingModel
from tfdml.methods.method_arguments import MethodArguments
from tfdml.registry.arguments import FrozenBatchNorm

PARTS = ("features", "trained")


@keras.saving.register_keras_serializable(package="tfdml")
class JoinedArguments(MethodArguments, total=False):
    """Arguments that `Joined` passes on; files have the second, too."""

    freeze_batch_norm: FrozenBatchNorm


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
