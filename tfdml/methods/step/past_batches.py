"""The embeddings of past batches with which a step compares its images."""

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
    """Returns `[B]`: False for the share of rows whose labels are least probable, see `tfdml.memories.Agreement`.

    Past embeddings `[M, d]` are `stored` with labels `names` `[M]`, `NO_IMAGE` of empty places. The share is of the
    rows whose class is among the past ones.
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
    """Returns labels `[M]` and the means `[M, d]` of their rows; from the number of labels on `NO_IMAGE`, and 0."""
    order = tf.argsort(names)
    names, size = tf.gather(names, order), tf.shape(names)[0]
    numbers = tf.cumsum(tf.concat([[0], tf.cast(names[1:] != names[:-1], tf.int32)], axis=0))
    counts = tf.math.unsorted_segment_sum(tf.ones_like(stored[:, 0]), numbers, size)
    sums = tf.math.unsorted_segment_sum(tf.gather(stored, order), numbers, size)
    # The maximum of nothing is the lowest number.
    return tf.math.unsorted_segment_max(names, numbers, size), sums / tf.maximum(counts, 1.0)[:, None]


class MomentumEncoder:
    """Embeds images by weights that follow those of a model slowly: equation (2) of Momentum Contrast.

    The fraction `decay` of the average remains in a step. It belongs to training and not to the model, so that files of
    models are without it.
    """

    def __init__(self, decay):
        self.decay = decay
        self.variables = []

    def make(self, model):
        """Makes an average of the weights that train; in the first step it becomes these."""
        self.variables = [
            _variable(f"{each.path.replace('/', '_')}_momentum", each.shape, each.dtype)
            for each in model.trainable_variables
        ]

    def keys(self, model, images, first):
        """Moves the average, and returns the learners `[B, K, d]` of images by it, constant to the gradient.

        `first` is a boolean scalar, whether this is the first step.
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
    """Queues of embeddings and labels, one for each learner, that losses compare a batch with; see `tfdml.memories`.

    They belong to training and not to the model, so that files of models are without them. Checkpoints of a run save
    its `variables`.
    """

    def __init__(self, memory):
        if not isinstance(memory, XBM):
            raise ValueError(f"Expected a memory of tfdml.memories or its spec, such as 'xbm', received {memory!r}.")
        self.memory = memory
        self._embeddings, self._labels, self._steps = [], [], []
        self._encoder = MomentumEncoder(memory.decay) if isinstance(memory, Momentum) else None

    @property
    def spec(self):
        """The memory as text, which `compile` takes."""
        arguments = ", ".join(f"{name}={value}" for name, value in self.memory.own_config().items())
        return f"{type(self.memory).__name__.lower()}({arguments})"

    @property
    def variables(self):
        """All variables of the queues."""
        return [*self._embeddings, *self._labels, *self._steps, *(self._encoder.variables if self._encoder else ())]

    def get_state(self):
        """Nothing but the variables."""
        return {}

    def set_state(self, state):
        """Nothing but the variables."""

    def make(self, dims, dtype, model=None):
        """Makes empty queues, one for embeddings of each of these dimensions, and of a model's the momentum encoder."""
        size = self.memory.size
        self._embeddings = [_variable("past_embeddings", (size, dim), dtype) for dim in dims]
        self._labels = [_variable("past_labels", (size,), "int64", NO_IMAGE) for _ in dims]
        self._steps = [_variable("past_steps", (), "int64") for _ in dims]
        if self._encoder:
            self._encoder.make(model)

    def keys(self, model, images):
        """The learners `[B, K, d]` of images that go into the queues: those of the momentum encoder, or None."""
        return self._encoder and self._encoder.keys(model, images, tf.convert_to_tensor(self._steps[0]) == 0)

    def values(self, loss, learner, labels, embeddings, keys=None):
        """Loss `[B]` of a learner's embeddings `[B, d]`, which are then in its queue, or else the keys `[B, K, d]`."""
        check_class_numbers(labels)
        stored, names, steps = (each[learner] for each in (self._embeddings, self._labels, self._steps))
        size, queries = self.memory.size, tf.shape(embeddings)[0]
        message = f"The memory holds {size} embeddings, fewer than a batch has. Give it a larger size."
        check = tf.debugging.assert_less_equal(queries, size, message=message_of_check(message))
        with tf.control_dependencies([] if check is None else [check]):
            gallery = tf.concat([embeddings, tf.convert_to_tensor(stored)], axis=0)[:size]
        own = self._compared(labels, embeddings, stored, names, steps)
        of_gallery = tf.concat([own, tf.convert_to_tensor(names)], axis=0)[:size]
        # No condition, whose gradient TensorFlow warns of.
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
        """The labels `[B]` of a batch, `NO_IMAGE` of rows that the memory leaves out."""
        labels = tf.cast(labels, tf.int64)
        if not isinstance(self.memory, Agreement):
            return labels
        begun = tf.convert_to_tensor(steps) >= self.memory.start
        past = tf.where(begun, tf.convert_to_tensor(names), NO_IMAGE)
        rows = tf.convert_to_tensor(stored)
        return tf.where(agrees(labels, embeddings, past, rows, self.memory.share), labels, NO_IMAGE)


def past_batches_of(memory, model, loss):
    """The `PastBatches` of a memory or of its spec, None for None; a ValueError where model or loss cannot use them."""
    if memory is None:
        return None
    reason = None if loss is None else hooks_of(loss).refuses_memory
    if reason is not None:
        raise ValueError(f"{type(loss).__name__} takes no memory of past batches: {reason}. Leave out the memory.")
    if model.turns:
        raise ValueError(
            f"{type(model).__name__} takes no memory of past batches: a batch is that of one learner's part of the "
            "data. Leave out the memory."
        )
    return PastBatches(registry.create("memory", memory) if isinstance(memory, str) else memory)


def _variable(name, shape, dtype, value=0):
    # All replicas compute the same, from the global batch and from weights that are the same.
    return keras.Variable(
        keras.initializers.Constant(value),
        shape=shape,
        dtype=dtype,
        trainable=False,
        autocast=False,
        aggregation="only_first_replica",
        name=name,
    )
