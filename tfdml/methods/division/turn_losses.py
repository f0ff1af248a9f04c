"""The loss of each learner whose turn it was."""

import keras
import tensorflow as tf


class TurnLosses:
    """Means over an epoch of the loss of each learner. Not a layer, so that Keras does not save them with the model."""

    def __init__(self, learners):
        self.means = [keras.metrics.Mean(name=f"loss_of_learner_{k}") for k in range(learners)]

    def update(self, turns, losses):
        """Adds the loss of each part of a batch; its learner is that of `turns` `[parts]`, or none where it is -1."""
        for turn, loss in zip(tf.unstack(turns), losses, strict=True):
            for k, mean in enumerate(self.means):
                own = tf.equal(turn, k)
                mean.update_state(tf.where(own, loss, 0.0), sample_weight=tf.cast(own, "float32"))
