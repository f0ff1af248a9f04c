"""Counts the steps of a run, and tells the input pipeline where it is."""

import time

import keras
import tensorflow as tf


class Progress(keras.callbacks.Callback):
    """The global step: read by the training dataset at the start of each epoch, by callbacks at any time.

    Args:
        steps_per_epoch: steps that make an epoch; may be set until training begins.
    """

    def __init__(self, steps_per_epoch=None):
        super().__init__()
        self.steps_per_epoch = steps_per_epoch
        self.step = 0
        self._began = time.monotonic()
        self.pipeline_step = tf.Variable(0, trainable=False, dtype=tf.int64)

    @property
    def seconds(self):
        """How long the run has taken, what came before a stop included."""
        return time.monotonic() - self._began

    @property
    def epoch(self):
        """Epochs that are complete."""
        return self.step // self.steps_per_epoch

    @property
    def at_epoch_end(self):
        return self.step % self.steps_per_epoch == 0

    def get_state(self):
        return {"seconds": self.seconds}

    def set_state(self, state):
        self._began = time.monotonic() - state["seconds"]

    def on_epoch_begin(self, epoch, logs=None):
        self.pipeline_step.assign(self.step)

    def on_train_batch_end(self, batch, logs=None):
        self.step += 1
