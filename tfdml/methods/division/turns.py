"""Which learners learn from a batch."""

import tensorflow as tf

from tfdml.methods.step.step_checks import message_of_check


class Turns:
    """Tells which learners learn from a batch, and from which rows.

    A batch has one part, of the learner whose turn it is, or a part for each learner, in order. The targets tell the
    learner of each row; that of a part is -1 where the part has none. Where no part has one, or targets do not tell,
    the whole embedding learns.

    Args:
        slices: number of slices of the embedding.
        simultaneous: whether a batch has a part for each slice.
    """

    def __init__(self, slices, simultaneous):
        self.slices = slices
        self.parts = slices if simultaneous else 1

    def of(self, batch):
        """Returns the learner of each part, int32 `[parts]`, or None where targets do not tell."""
        if "learner" not in batch:
            return None
        learners = tf.cast(batch["learner"], tf.int32)
        return learners[:1] if self.parts == 1 else tf.reshape(learners, [self.parts, -1])[:, 0]

    def check(self, batch):
        """Raises an error if a part of the batch has several learners, or one that the model does not have.

        Returns:
            Whether it has neither, for XLA, which leaves out errors.
        """
        if "learner" not in batch:
            return True
        learners = tf.cast(batch["learner"], tf.int32)
        whose = "the batch" if self.parts == 1 else f"each of {self.parts} equal parts of the batch, in order"
        message = f"Expected the same learner for all images of {whose}; pipelines.sampling.WithinClusters draws such."
        message = message_of_check(message)
        tf.debugging.assert_equal(tf.size(learners) % self.parts, 0, message)
        learners = tf.reshape(learners, [self.parts, -1])
        same = tf.reduce_all(learners == learners[:, :1])
        tf.debugging.assert_equal(same, True, message)
        if self.parts == 1:
            known = tf.reduce_all(learners < self.slices)
            message = f"Expected learners below {self.slices}."
        else:
            known = tf.reduce_all((learners[:, 0] == tf.range(self.parts)) | (learners[:, 0] < 0))
        tf.debugging.assert_equal(known, True, message_of_check(message))
        return same & known

    def learning(self, turns):
        """Masks of the slices `[K]`, and of the loss' layers `[K + 1]`, that learn when these learners do."""
        turns = tf.constant([-1]) if turns is None else turns
        whole = tf.reduce_all(turns < 0)
        own = tf.reduce_any(tf.range(self.slices)[:, None] == turns, axis=1)
        return own | whole, tf.concat([own, [whole]], axis=0)

    def divided(self, values):
        """Returns the rows of each part of `[B, ...]`, a list of tensors."""
        return tf.split(values, self.parts)

    def seen_by_slices(self, values, turns):
        """Returns the rows of `[B, ...]` that each slice learns from when it does, a list of K tensors."""
        return [values] * self.slices if self.parts == 1 or turns is None else self.divided(values)
