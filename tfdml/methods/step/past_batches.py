"""The queues of past embeddings with which a training step compares its images."""

import keras
import tensorflow as tf

from tfdml import registry
from tfdml.functional.checks import at_least_float32, check_class_numbers
from tfdml.functional.distances import unit_length
from tfdml.functional.pairs import NO_IMAGE
from tfdml.methods.memories import XBM, Agreement, Momentum
from tfdml.methods.step.parts import anchor_values, message_of_check
from tfdml.registry.loss_hooks import hooks_of


def agrees(labels, embeddings, names, stored, share):
    """Returns a mask `[B]`, False for the rows with the least probable labels; see `tfdml.memories.Agreement`.

    `stored` are past embeddings `[M, d]`, and `names` are their labels `[M]`, which are `NO_IMAGE` for empty places.
    `share` is a fraction of the rows with classes that the past embeddings contain.
    """
    classes, centers = _centers(names, unit_length(stored))
    there = tf.not_equal(classes, NO_IMAGE)
    cosines = tf.matmul(unit_length(tf.stop_gradient(embeddings)), centers, transpose_b=True)
    own = tf.logical_and(labels[:, None] == classes[None, :], there)
    probabilities = tf.nn.softmax(tf.where(there, cosines, cosines.dtype.min))
    right = tf.reduce_sum(tf.where(own, probabilities, 0.0), axis=1)
    judged = tf.reduce_any(own, axis=1)
    wrong = tf.cast(share * tf.reduce_sum(tf.cast(judged, tf.float32)), tf.int32)
    least = tf.sort(tf.where(judged, right, 2.0))[wrong]
    return tf.logical_or(tf.logical_not(judged), right >= least)


def _centers(names, stored):
    """Returns the different labels `[M]`, padded with `NO_IMAGE`, and the mean rows `[M, d]`, padded with 0."""
    order = tf.argsort(names)
    names, size = tf.gather(names, order), tf.shape(names)[0]
    numbers = tf.cumsum(tf.concat([[0], tf.cast(names[1:] != names[:-1], tf.int32)], axis=0))
    counts = tf.math.unsorted_segment_sum(tf.ones_like(stored[:, 0]), numbers, size)
    sums = tf.math.unsorted_segment_sum(tf.gather(stored, order), numbers, size)
    # The maximum of an empty segment is the lowest integer, which is `NO_IMAGE`.
    return tf.math.unsorted_segment_max(names, numbers, size), sums / tf.maximum(counts, 1.0)[:, None]


class MomentumEncoder:
    """Embeds images with a moving average of a model's weights: equation (2) of Momentum Contrast.

    The fraction `decay` of the average remains in a step. The encoder is part of the training, not of the model, so the
    files of models do not contain it.
    """

    def __init__(self, decay):
        self.decay = decay
        self.variables = []

    def make(self, model):
        """Creates the averages of the trainable weights. The first step sets them to the weights."""
        self.variables = [
            _variable(f"{each.path.replace('/', '_')}_momentum", each.shape, each.dtype)
            for each in model.trainable_variables
        ]

    def keys(self, model, images, first):
        """Updates the average and returns the learners `[B, K, d]` that it computes, without gradients.

        `first` is a boolean scalar: whether this is the first step.
        """
        share = tf.where(first, 1.0, 1.0 - self.decay)
        for average, variable in zip(self.variables, model.trainable_variables, strict=True):
            way = tf.convert_to_tensor(variable) - tf.convert_to_tensor(average)
            average.assign_add(tf.cast(share, way.dtype) * way)
        values = [tf.convert_to_tensor(each) for each in self.variables]
        others = [tf.convert_to_tensor(each) for each in model.non_trainable_variables]
        learners, _ = model.stateless_call(values, others, images, training=True, merged=False)
        return tf.stop_gradient(at_least_float32(learners))


class PastBatches:
    """Queues of embeddings and labels, one per learner, with which losses compare a batch; see `tfdml.memories`.

    They are part of the training, not of the model, so the files of models do not contain them. The checkpoints of a
    run contain the `variables`.
    """

    def __init__(self, memory):
        if not isinstance(memory, XBM):
            raise ValueError(
                "memory must be one of tfdml.memories, such as tfdml.memories.XBM(), or its spec, such as 'xbm'. "
                f"Received: memory={memory!r}."
            )
        self.memory = memory
        self._embeddings, self._labels, self._steps = [], [], []
        self._encoder = MomentumEncoder(memory.decay) if isinstance(memory, Momentum) else None

    @property
    def spec(self):
        """The memory as a text that `compile` accepts."""
        arguments = ", ".join(f"{name}={value}" for name, value in self.memory.own_config().items())
        return f"{type(self.memory).__name__.lower()}({arguments})"

    @property
    def variables(self):
        """All variables of the queues."""
        return [*self._embeddings, *self._labels, *self._steps, *(self._encoder.variables if self._encoder else ())]

    def get_state(self):
        """Returns an empty state, because checkpoints save the variables."""
        return {}

    def set_state(self, state):
        """Does nothing, because checkpoints restore the variables."""

    def make(self, dims, dtype, model=None):
        """Creates empty queues, one for each embedding size in `dims`, and the momentum encoder, if any."""
        size = self.memory.size
        self._embeddings = [_variable("past_embeddings", (size, dim), dtype) for dim in dims]
        self._labels = [_variable("past_labels", (size,), "int64", NO_IMAGE) for _ in dims]
        self._steps = [_variable("past_steps", (), "int64") for _ in dims]
        if self._encoder:
            self._encoder.make(model)

    def keys(self, model, images):
        """Returns the embeddings `[B, K, d]` of the momentum encoder for the queues, or None without an encoder."""
        return self._encoder and self._encoder.keys(model, images, tf.convert_to_tensor(self._steps[0]) == 0)

    def values(self, loss, learner, labels, embeddings, keys=None):
        """Computes the loss `[B]` of embeddings `[B, d]` and adds them, or the keys `[B, K, d]`, to the queue."""
        check_class_numbers(labels)
        stored, names, steps = (each[learner] for each in (self._embeddings, self._labels, self._steps))
        size, queries = self.memory.size, tf.shape(embeddings)[0]
        message = f"The memory must hold at least one batch. Received: size={size}, which is less. Increase size."
        check = tf.debugging.assert_less_equal(queries, size, message=message_of_check(message))
        with tf.control_dependencies([] if check is None else [check]):
            gallery = tf.concat([embeddings, tf.convert_to_tensor(stored)], axis=0)[:size]
        own = self._compared(labels, embeddings, stored, names, steps)
        of_gallery = tf.concat([own, tf.convert_to_tensor(names)], axis=0)[:size]
        # Avoid tf.cond, because TensorFlow warns about its gradient.
        used = tf.logical_or(tf.convert_to_tensor(steps) >= self.memory.start, tf.range(size) < queries)
        values = anchor_values(loss, tf.where(used, of_gallery, NO_IMAGE), gallery, queries)
        if isinstance(self.memory, Agreement):
            values = tf.where(tf.equal(own, NO_IMAGE), tf.zeros_like(values), values)
        if keys is not None:
            gallery = tf.concat([keys[:, learner], tf.convert_to_tensor(stored)], axis=0)[:size]
        stored.assign(tf.stop_gradient(gallery))
        names.assign(of_gallery)
        steps.assign_add(tf.ones((), tf.int64))
        return values

    def _compared(self, labels, embeddings, stored, names, steps):
        """Returns the labels `[B]` of a batch, with `NO_IMAGE` for rows that the memory ignores."""
        labels = tf.cast(labels, tf.int64)
        if not isinstance(self.memory, Agreement):
            return labels
        begun = tf.convert_to_tensor(steps) >= self.memory.start
        past = tf.where(begun, tf.convert_to_tensor(names), NO_IMAGE)
        rows = tf.convert_to_tensor(stored)
        return tf.where(agrees(labels, embeddings, past, rows, self.memory.share), labels, NO_IMAGE)


def past_batches_of(memory, model, loss):
    """Returns the `PastBatches` of a memory or its spec, or None. Raises an error if model or loss cannot use them."""
    if memory is None:
        return None
    reason = None if loss is None else hooks_of(loss).refuses_memory
    if reason is not None:
        raise ValueError(f"{type(loss).__name__} does not support memory: {reason}. Remove memory from compile().")
    if model.turns:
        raise ValueError(
            f"{type(model).__name__} does not support memory, because its batches come from different clusters of the "
            "data. Remove memory from compile()."
        )
    return PastBatches(registry.create("memory", memory) if isinstance(memory, str) else memory)


def _variable(name, shape, dtype, value=0):
    # All replicas compute the same values, because the global batch and the weights are the same.
    return keras.Variable(
        keras.initializers.Constant(value),
        shape=shape,
        dtype=dtype,
        trainable=False,
        autocast=False,
        aggregation="only_first_replica",
        name=name,
    )
