"""The loss of each learner whose turn it was."""

import keras
import tensorflow as tf


class TurnLosses:
    """Means over an epoch of the loss of each learner. Not a layer, so that Keras does not save them with the model."""

    def __init__(self, learners):
        self.means = [keras.metrics.Mean(name=f"loss_of_learner_{k}") for k in range(learners)]

    def update(self, turn, loss):
        for k, mean in enumerate(self.means) if turn is not None else ():
            mean.update_state(
                tf.where(tf.equal(turn, k), loss, 0.0), sample_weight=tf.cast(tf.equal(turn, k), "float32")
            )
