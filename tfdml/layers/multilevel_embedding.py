"""Head that computes an embedding at each of several depths."""

import keras
from keras import ops

from tfdml.argument_checks import expects
from tfdml.arguments import integer
from tfdml.functional.checks import at_least_float32
from tfdml.functional.distances import unit_length
from tfdml.layers.ceil_average_pooling import CeilAveragePooling
from tfdml.layers.feature_embedding import EMBEDDING, FeatureEmbedding


@keras.saving.register_keras_serializable(package="tfdml")
@expects(reduced=integer(1), hidden=integer(1), **EMBEDDING)
class MultilevelEmbedding(FeatureEmbedding):
    """Computes one learner at each of several depths: feature maps to `[B, levels, embedding_size / levels]`.

    These are the low, middle and high embeddings of Ranked List Loss (Sec. 4.1.3), at the depths of the three
    classifiers of GoogLeNet V2. All levels but the last have a 5 × 5 pooling with stride 3, a 1 × 1 convolution and a
    hidden layer, the latter two with batch norm. Each level then has a copy of the layer `features`, which pools the
    last level over all positions, a linear layer, and normalization in float32. Hidden layers read every position, so
    all images must have the same size.

    Args:
        embedding_size: number of dimensions of all levels together.
        reduced: number of channels after the 1 × 1 convolution.
        hidden: number of units of the hidden layer.
        features: Keras layer of the last level before its linear layer, of which the other levels have copies.
            Default: `PooledFeatures()`, the average over positions.
    """

    def __init__(self, embedding_size, reduced=128, hidden=1024, features=None, **kwargs):
        super().__init__(embedding_size, features, **kwargs)
        self.reduced = reduced
        self.hidden = hidden

    def build(self, input_shape):
        levels = len(input_shape)
        if self.embedding_size % levels:
            raise ValueError(f"An embedding of size {self.embedding_size} cannot be split into {levels} equal levels.")
        size = self.embedding_size // levels
        self.branches = [self._auxiliary(number, shape) for number, shape in enumerate(input_shape[:-1])]
        self.build_features(input_shape[-1])
        self.branches.append(self.features)
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

    def compute_output_shape(self, input_shape):
        return (input_shape[0][0], len(input_shape), self.embedding_size // len(input_shape))

    def get_config(self):
        return {**super().get_config(), "reduced": self.reduced, "hidden": self.hidden}

    def _features_of(self, number):
        """A copy of the layer `features` for a level other than the last."""
        config = {**self.features.get_config(), "name": f"level{number}_last_features"}
        return type(self.features).from_config(config)

    def _auxiliary(self, number, shape):
        """The layers of a level other than the last, up to its hidden layer."""
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
            self._features_of(number),
        ]
        return keras.Sequential(layers, name=f"level{number}_features")
