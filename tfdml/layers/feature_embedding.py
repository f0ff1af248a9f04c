"""Base class of the layers that compute embeddings from features."""

import keras

from tfdml.arguments import instance, integer, optional
from tfdml.layers.pooled_features import PooledFeatures

EMBEDDING = {"embedding_size": integer(1), "features": optional(instance(keras.Layer, "a Keras layer"))}


class FeatureEmbedding(keras.layers.Layer):
    """Applies a layer to features before its own linear layer.

    Args:
        embedding_size: number of dimensions of the embedding.
        features: Keras layer from features to `[B, n]`. Default: `PooledFeatures()`, which averages over positions.
    """

    def __init__(self, embedding_size, features=None, **kwargs):
        super().__init__(**kwargs)
        self.embedding_size = embedding_size
        self.features = PooledFeatures(dtype=self.dtype_policy, name="features") if features is None else features

    def build_features(self, input_shape):
        """Builds the layer `features`, and returns the shape of its output."""
        # A loaded layer is already built.
        if not self.features.built:
            self.features.build(input_shape)
        return self.features.compute_output_shape(input_shape)

    def get_config(self):
        features = keras.saving.serialize_keras_object(self.features)
        return {**super().get_config(), "embedding_size": self.embedding_size, "features": features}

    @classmethod
    def from_config(cls, config):
        return cls(**{**config, "features": keras.saving.deserialize_keras_object(config["features"])})
