"""An average of past weights of a model, which embeds images for a memory."""

import keras
import tensorflow as tf

from tfdml.functional.checks import at_least_float32


class MomentumEncoder:
    """Embeds images by weights that follow those of a model slowly: equation (2) of Momentum Contrast.

    The average belongs to training and not to the model, so that files of models are without it.

    Args:
        decay: fraction of the average that remains in a step.
    """

    def __init__(self, decay):
        self.decay = decay
        self.variables = []

    def make(self, model):
        """Makes an average of the weights that train; in the first step it becomes these."""
        self.variables = [_copy(variable) for variable in model.trainable_variables]

    def keys(self, model, images, first):
        """Moves the average, and returns the learners `[B, K, d]` of images by it, constant to the gradient.

        Args:
            model: the model.
            images: `[B, ...]`.
            first: boolean scalar, whether this is the first step.
        """
        share = tf.where(first, 1.0, 1.0 - self.decay)
        for average, variable in zip(self.variables, model.trainable_variables, strict=True):
            way = tf.convert_to_tensor(variable) - tf.convert_to_tensor(average)
            average.assign_add(tf.cast(share, way.dtype) * way)
        values = [tf.convert_to_tensor(each) for each in self.variables]
        others = [tf.convert_to_tensor(each) for each in model.non_trainable_variables]
        learners, _ = model.stateless_call(values, others, images, training=True, merged=False)
        return tf.stop_gradient(at_least_float32(learners))


def _copy(variable):
    # All replicas compute the same, from weights that are the same.
    return keras.Variable(
        keras.initializers.Zeros(),
        shape=variable.shape,
        dtype=variable.dtype,
        trainable=False,
        autocast=False,
        aggregation="only_first_replica",
        name=f"{variable.path.replace('/', '_')}_momentum",
    )
