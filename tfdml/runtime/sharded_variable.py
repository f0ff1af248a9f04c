"""`ShardedVariable`: a variable that is divided among the devices of a strategy."""

import keras
import numpy as np


def shards_in_step():
    """Returns the number of replicas inside a distributed step, and 1 outside of it."""
    if keras.backend.backend() != "tensorflow":
        return 1
    context = _distribute().get_replica_context()
    return 1 if context is None else context.num_replicas_in_sync


def devices_in_scope():
    """Returns the number of devices of the current strategy, or 1 without a strategy."""
    if keras.backend.backend() != "tensorflow":
        return 1
    return _distribute().get_strategy().num_replicas_in_sync


class ShardedVariable(keras.Variable):
    """A variable with rows that are divided among the devices of the current strategy.

    The first device holds the first rows, and so on. The last rows are padded with zeros, so that all shards have the
    same shape, which is the shape of the variable. Inside a step, each device sees its own shard. Outside of steps,
    `numpy` and `assign` use the whole variable.

    The arguments `initializer` and `shape` describe the whole variable. It is initialized with the same values as on
    one device, in the memory of the host. Each group of `together` consecutive rows stays on one device.
    """

    def __init__(self, initializer, shape, together=1, **kwargs):
        self.rows = shape[0]
        height = together * -(-self.rows // (together * devices_in_scope()))
        super().__init__(initializer, (height, *shape[1:]), **kwargs)

    @classmethod
    def like(cls, variable, reference):
        """Converts a variable with the shape of a shard to one that is divided like the reference."""
        variable.__class__, variable.rows = cls, reference.rows
        return variable

    def copy(self, name):
        """Returns a copy that is not trainable and is divided in the same way."""
        zeros = keras.Variable("zeros", self.shape, dtype=self.dtype, trainable=False, autocast=False, name=name)
        copied = ShardedVariable.like(zeros, self)
        copied.assign(self.numpy())
        return copied

    @property
    def whole_shape(self):
        """The shape of the whole variable."""
        return (self.rows, *self.shape[1:])

    @property
    def shards(self):
        """The shards, in the order of the devices."""
        value = self.value
        # While Keras infers shapes, the value is a placeholder.
        if isinstance(value, _distribute().DistributedValues):
            return value.values
        return [value] * -(-self.rows // self.shape[0])

    def numpy(self):
        return np.concatenate([shard.numpy() for shard in self.shards])[: self.rows]

    def assign(self, value):
        if tuple(value.shape) != self.whole_shape:
            raise ValueError(
                f"The whole value of {self.path} must be assigned. Expected shape {self.whole_shape}. Received: shape "
                f"{tuple(value.shape)}."
            )
        value, height = np.asarray(value), self.shape[0]
        for number, shard in enumerate(self.shards):
            part = value[number * height : (number + 1) * height]
            shard.assign(np.pad(part, [(0, height - len(part)), *[(0, 0)] * (part.ndim - 1)]))
        return value

    def add_up(self, compute):
        """Returns the sum of `compute(index of the shard)` over devices inside a step, with gradients."""
        context = _distribute().get_replica_context()
        return context.all_reduce("SUM", compute(context.replica_id_in_sync_group))

    def _initialize_with_initializer(self, initializer):
        # The strategy copies the value on the first device to the other devices.
        self._initialize(lambda: keras.ops.zeros(self.shape, self.dtype))
        with keras.device("cpu:0"):
            self.assign(initializer(self.whole_shape, dtype=self.dtype))


def _distribute():
    # Losses and layers also work without TensorFlow.
    import tensorflow as tf

    return tf.distribute
