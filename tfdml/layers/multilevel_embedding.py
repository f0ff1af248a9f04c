"""From features of several depths to an embedding of each."""

import keras
from keras import ops

from tfdml.arguments import integer
from tfdml.functional.checks import at_least_float32
from tfdml.functional.distances import unit_length
from tfdml.layers.ceil_average_pooling import CeilAveragePooling
from tfdml.layers.pooled_features import FEATURES, PooledFeatures
from tfdml.registry import register

EXPECTED = {"embedding_size": integer(1), "reduced": integer(1), "hidden": integer(1), **FEATURES}


@register("layer", "multilevel_embedding", **EXPECTED)
class MultilevelEmbedding(keras.layers.Layer):
    """One learner at each of several depths of a network: feature maps to `[B, levels, embedding_size / levels]`.

    The low, middle and high embeddings of Ranked List Loss (Sec. 4.1.3), which stand where GoogLeNet V2 has its three
    classifiers. All but the last level are pooled 5 × 5 with stride 3, reduced by a 1 × 1 convolution, flattened and
    led through a hidden layer, both with batch norm; the last is pooled over all positions. Then each has its norm and
    dropout, if any, its linear layer and unit length, in float32. Hidden layers read every position, so images need
    one size.

    Args:
        embedding_size: dimensions of all levels together.
        reduced: channels after the 1 × 1 convolution.
        hidden: units of the hidden layer.
        pooling: of the last level, see `PooledFeatures`.
        norm, dropout: of every level before its linear layer, see `PooledFeatures`.
    """

    def __init__(self, embedding_size, reduced=128, hidden=1024, pooling="avg", norm="none", dropout=0.0, **kwargs):
        super().__init__(**kwargs)
        self.embedding_size = embedding_size
        self.reduced = reduced
        self.hidden = hidden
        self.feature_options = {"pooling": pooling, "norm": norm, "dropout": dropout}
        self.last_features = self._features("last_features")

    def build(self, input_shape):
        levels = len(input_shape)
        if self.embedding_size % levels:
            raise ValueError(f"An embedding of size {self.embedding_size} cannot be cut into {levels} equal levels.")
        size = self.embedding_size // levels
        self.branches = [self._auxiliary(number, shape) for number, shape in enumerate(input_shape[:-1])]
        self.last_features.build(input_shape[-1])
        self.branches.append(self.last_features)
        self.projections = [
            keras.layers.Dense(size, dtype=self.dtype_policy, name=f"level{number}") for number in range(levels)
        ]
        for projection, width in zip(
            self.projections, [*[self.hidden] * (levels - 1), input_shape[-1][-1]], strict=True
        ):
            projection.build((None, width))

    def call(self, levels, training=False):
        learners = []
        for features, branch, projection in zip(levels, self.branches, self.projections, strict=True):
            learners.append(at_least_float32(projection(branch(features, training=training))))
        return unit_length(ops.stack(learners, axis=1))

    def compute_output_shape(self, input_shape):
        return (input_shape[0][0], len(input_shape), self.embedding_size // len(input_shape))

    def get_config(self):
        own = {"embedding_size": self.embedding_size, "reduced": self.reduced, "hidden": self.hidden}
        return {**super().get_config(), **own, **self.feature_options}

    def _features(self, name):
        return PooledFeatures(**self.feature_options, dtype=self.dtype_policy, name=name)

    def _auxiliary(self, number, shape):
        """The branch of a level that is not the last, up to its hidden layer."""
        if None in shape[1:]:
            raise ValueError(
                f"A level's hidden layer reads every position, so images need one size; received features {shape}."
            )
        policy, side = {"dtype": self.dtype_policy}, min(5, *shape[1:3])
        layers = [
            keras.Input(shape[1:]),
            CeilAveragePooling(side, min(3, side), **policy),
            keras.layers.Conv2D(self.reduced, 1, use_bias=False, **policy),
            keras.layers.BatchNormalization(momentum=0.9, **policy),
            keras.layers.ReLU(**policy),
            keras.layers.Flatten(**policy),
            keras.layers.Dense(self.hidden, use_bias=False, **policy),
            keras.layers.BatchNormalization(momentum=0.9, **policy),
            keras.layers.ReLU(**policy),
            self._features(f"level{number}_last_features"),
        ]
        return keras.Sequential(layers, name=f"level{number}_features")
