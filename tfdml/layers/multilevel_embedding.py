"""Head that computes an embedding at each of several depths."""

from collections.abc import Sequence
from typing import Annotated, Unpack

import keras
import numpy as np
from keras import ops

from tfdml.functional.checks import at_least_float32
from tfdml.functional.distances import unit_length
from tfdml.layers.ceil_average_pooling import CeilAveragePooling
from tfdml.layers.feature_embedding import FeatureEmbedding, FeatureLayer, LinearPart
from tfdml.registry.arguments import Count, LayerArguments, boolean, optional, several


@keras.saving.register_keras_serializable(package="tfdml")
class MultilevelEmbedding(FeatureEmbedding):
    """Computes one learner at each of several depths: feature maps to `[B, levels, embedding_size / levels]`.

    These are the low, middle and high embeddings of Ranked List Loss (Sec. 4.1.3), at the depths of the three
    classifiers of GoogLeNet V2. As there, auxiliary levels have a 5 × 5 pooling with stride 3, a 1 × 1 convolution and
    a hidden layer, the latter two with batch norm. Each level then has a layer `features` of its own, which pools
    features over all positions where the level is not auxiliary, a linear layer, and normalization in float32. Hidden
    layers read every position, so all images must have the same size.

    Args:
        embedding_size: number of dimensions of all levels together.
        reduced: number of channels after the 1 × 1 convolution of auxiliary levels.
        hidden: number of units of their hidden layer.
        features: Keras layer of the last level before its linear layer, of which the other levels have copies.
            Default: `PooledFeatures()`, the average over positions.
        auxiliary: for each level, whether it is auxiliary; None: all but the last are.
    """

    def __init__(
        self,
        embedding_size: Count,
        reduced: Count = 128,
        hidden: Count = 1024,
        features: FeatureLayer = None,
        auxiliary: Annotated[Sequence[bool] | None, optional(several(boolean()))] = None,
        **kwargs: Unpack[LayerArguments],
    ):
        super().__init__(embedding_size, features, **kwargs)
        self.reduced = reduced
        self.hidden = hidden
        self.auxiliary = auxiliary

    def build(self, input_shape):
        levels = len(input_shape)
        if self.embedding_size % levels:
            raise ValueError(f"An embedding of size {self.embedding_size} cannot be split into {levels} equal levels.")
        auxiliary = (True,) * (levels - 1) + (False,) if self.auxiliary is None else self.auxiliary
        if len(auxiliary) != levels:
            raise ValueError(f"Expected auxiliary to have {levels} values, one for each level; received {auxiliary}.")
        size = self.embedding_size // levels
        self.branches = [
            self._branch(number, auxiliary[number], shape, last=number == levels - 1)
            for number, shape in enumerate(input_shape)
        ]
        self.projections = [
            keras.layers.Dense(size, dtype=self.dtype_policy, name=f"level{number}") for number in range(levels)
        ]
        for branch, projection, shape in zip(self.branches, self.projections, input_shape, strict=True):
            projection.build(branch.compute_output_shape(shape))

    def call(self, levels, training=False):
        learners = []
        for features, branch, projection in zip(levels, self.branches, self.projections, strict=True):
            learners.append(at_least_float32(projection(branch(features, training=training))))
        return unit_length(ops.stack(learners, axis=1))

    def linear_parts(self) -> list[LinearPart]:
        pairs = zip(self.branches, self.projections, strict=True)
        return [LinearPart(branch, each.kernel, each.bias, np.arange(each.units)) for branch, each in pairs]

    def compute_output_shape(self, input_shape):
        return (input_shape[0][0], len(input_shape), self.embedding_size // len(input_shape))

    def get_config(self):
        own = {"reduced": self.reduced, "hidden": self.hidden, "auxiliary": self.auxiliary}
        return {**super().get_config(), **own}

    def _branch(self, number, auxiliary, shape, last):
        """The layers of a level before its linear layer."""
        features = self.features
        if not last:
            config = {**features.get_config(), "name": f"level{number}_last_features"}
            features = type(features).from_config(config)
        if auxiliary:
            return self._auxiliary(number, shape, features)
        # A loaded layer is already built.
        if not features.built:
            features.build(shape)
        return features

    def _auxiliary(self, number, shape, features):
        """The layers of an auxiliary level, which end with its layer `features`."""
        if None in shape[1:]:
            raise ValueError(
                f"A level's hidden layer reads every position, so images need a fixed size; received features {shape}."
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
            features,
        ]
        return keras.Sequential(layers, name=f"level{number}_features")
