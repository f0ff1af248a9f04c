"""The queues of past embeddings with which a training step compares its images."""

import keras
import numpy as np
from keras import ops

from tfdml import registry
from tfdml.functional.checks import at_least_float32, check_class_numbers
from tfdml.functional.distances import unit_length
from tfdml.functional.pairs import NO_IMAGE
from tfdml.methods.memories import XBM, Agreement, Momentum
from tfdml.methods.step.parts import after, anchor_values, check
from tfdml.registry.loss_hooks import hooks_of


def agrees(labels, embeddings, names, stored, share):
    """Returns a mask `[B]`, False for the rows with the least probable labels; see `tfdml.memories.Agreement`.

    `stored` are past embeddings `[M, d]`, and `names` are their labels `[M]`, which are `NO_IMAGE` for empty places.
    `share` is a fraction of the rows with classes that the past embeddings contain.
    """
    classes, centers = _centers(names, unit_length(stored))
    there = ops.not_equal(classes, NO_IMAGE)
    cosines = ops.matmul(unit_length(ops.stop_gradient(embeddings)), ops.transpose(centers))
    own = ops.logical_and(labels[:, None] == classes[None, :], there)
    lowest = float(np.finfo(keras.backend.standardize_dtype(cosines.dtype)).min)
    probabilities = ops.softmax(ops.where(there, cosines, lowest))
    right = ops.sum(ops.where(own, probabilities, 0.0), axis=1)
    judged = ops.any(own, axis=1)
    wrong = ops.cast(share * ops.sum(ops.cast(judged, "float32")), "int32")
    least = ops.take(ops.sort(ops.where(judged, right, 2.0)), wrong)
    return ops.logical_or(ops.logical_not(judged), right >= least)


def _centers(names, stored):
    """Returns the different labels `[M]`, padded with `NO_IMAGE`, and the mean rows `[M, d]`, padded with 0."""
    order = ops.argsort(names)
    names, size = ops.take(names, order), names.shape[0]
    numbers = ops.cumsum(ops.concatenate([ops.zeros((1,), "int32"), ops.cast(names[1:] != names[:-1], "int32")]))
    counts = ops.segment_sum(ops.ones_like(stored[:, 0]), numbers, size)
    sums = ops.segment_sum(ops.take(stored, order, axis=0), numbers, size)
    classes = ops.where(counts > 0, ops.segment_max(names, numbers, size), NO_IMAGE)
    return classes, sums / ops.maximum(counts, 1.0)[:, None]


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
        share = ops.where(first, 1.0, 1.0 - self.decay)
        for average, variable in zip(self.variables, model.trainable_variables, strict=True):
            way = ops.convert_to_tensor(variable) - ops.convert_to_tensor(average)
            average.assign_add(ops.stop_gradient(ops.cast(share, way.dtype) * way))
        values = [ops.convert_to_tensor(each) for each in self.variables]
        others = [ops.convert_to_tensor(each) for each in model.non_trainable_variables]
        learners, _ = model.stateless_call(values, others, images, training=True, merged=False)
        return ops.stop_gradient(at_least_float32(learners))


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
        return self._encoder and self._encoder.keys(model, images, ops.convert_to_tensor(self._steps[0]) == 0)

    def values(self, loss, learner, labels, embeddings, keys=None):
        """Computes the loss `[B]` of embeddings `[B, d]` and adds them, or the keys `[B, K, d]`, to the queue."""
        check_class_numbers(labels)
        stored, names, steps = (each[learner] for each in (self._embeddings, self._labels, self._steps))
        size, queries = self.memory.size, ops.shape(embeddings)[0]
        message = f"The memory must hold at least one batch. Received: size={size}, which is less. Increase size."
        fits = check(queries <= size, message)
        gallery = after([fits], ops.concatenate([embeddings, ops.convert_to_tensor(stored)], axis=0)[:size])
        own = self._compared(labels, embeddings, stored, names, steps)
        of_gallery = ops.concatenate([own, ops.convert_to_tensor(names)], axis=0)[:size]
        # Avoid ops.cond, because TensorFlow warns about its gradient.
        used = ops.logical_or(ops.convert_to_tensor(steps) >= self.memory.start, ops.arange(size) < queries)
        values = anchor_values(loss, ops.where(used, of_gallery, NO_IMAGE), gallery, queries)
        if isinstance(self.memory, Agreement):
            values = ops.where(ops.equal(own, NO_IMAGE), ops.zeros_like(values), values)
        if keys is not None:
            gallery = ops.concatenate([keys[:, learner], ops.convert_to_tensor(stored)], axis=0)[:size]
        stored.assign(ops.stop_gradient(gallery))
        names.assign(of_gallery)
        steps.assign_add(ops.ones((), "int64"))
        return values

    def _compared(self, labels, embeddings, stored, names, steps):
        """Returns the labels `[B]` of a batch, with `NO_IMAGE` for rows that the memory ignores."""
        labels = ops.cast(labels, "int64")
        if not isinstance(self.memory, Agreement):
            return labels
        begun = ops.convert_to_tensor(steps) >= self.memory.start
        past = ops.where(begun, ops.convert_to_tensor(names), NO_IMAGE)
        rows = ops.convert_to_tensor(stored)
        return ops.where(agrees(labels, embeddings, past, rows, self.memory.share), labels, NO_IMAGE)


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
