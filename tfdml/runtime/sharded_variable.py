"""`ShardedVariable`: a variable of which each device of a strategy holds a part."""

import keras
import numpy as np


def shards_in_step():
    """Returns the number of replicas in a step that several take together; 1 anywhere else."""
    if keras.backend.backend() != "tensorflow":
        return 1
    context = _distribute().get_replica_context()
    return 1 if context is None else context.num_replicas_in_sync


def devices_in_scope():
    """Returns the number of devices of the strategy in whose scope this is called; 1 without one."""
    if keras.backend.backend() != "tensorflow":
        return 1
    return _distribute().get_strategy().num_replicas_in_sync


class ShardedVariable(keras.Variable):
    """A variable whose rows are divided among the devices of the strategy in whose scope it is made.

    The first device holds the first rows, and so on; zeros behind the last row give all shards the same shape, which is
    that of the variable. In a step each device sees its own shard. `numpy` and `assign` are for use outside of steps,
    and have the whole.

    The initializer and the shape are of the whole; it draws what it would on one device, in the memory of the host.
    Each group of `together` consecutive rows, counted from the first row, stays on one device.
    """

    def __init__(self, initializer, shape, together=1, **kwargs):
        self.rows = shape[0]
        height = together * -(-self.rows // (together * devices_in_scope()))
        super().__init__(initializer, (height, *shape[1:]), **kwargs)

    @classmethod
    def like(cls, variable, reference):
        """Makes of a variable with the shape of a shard one that is divided as the reference."""
        variable.__class__, variable.rows = cls, reference.rows
        return variable

    def copy(self, name):
        """Returns a variable of the same numbers that is not trained, divided in the same way."""
        zeros = keras.Variable("zeros", self.shape, dtype=self.dtype, trainable=False, autocast=False, name=name)
        copied = ShardedVariable.like(zeros, self)
        copied.assign(self.numpy())
        return copied

    @property
    def whole_shape(self):
        """The shape of the whole."""
        return (self.rows, *self.shape[1:])

    @property
    def shards(self):
        """The variables of the devices, in order."""
        value = self.value
        # While Keras infers shapes, a placeholder.
        if isinstance(value, _distribute().DistributedValues):
            return value.values
        return [value] * -(-self.rows // self.shape[0])

    def numpy(self):
        return np.concatenate([shard.numpy() for shard in self.shards])[: self.rows]

    def assign(self, value):
        if tuple(value.shape) != self.whole_shape:
            raise ValueError(f"{self.path} is {self.whole_shape} in all, received a value of shape {value.shape}.")
        value, height = np.asarray(value), self.shape[0]
        for number, shard in enumerate(self.shards):
            part = value[number * height : (number + 1) * height]
            shard.assign(np.pad(part, [(0, height - len(part)), *[(0, 0)] * (part.ndim - 1)]))
        return value

    def add_up(self, compute):
        """Returns the sum over devices, in a step, of `compute(number of the shard)`; differentiable."""
        context = _distribute().get_replica_context()
        return context.all_reduce("SUM", compute(context.replica_id_in_sync_group))

    def _initialize_with_initializer(self, initializer):
        # The strategy copies what it makes on the first device to the others.
        self._initialize(lambda: keras.ops.zeros(self.shape, self.dtype))
        with keras.device("cpu:0"):
            self.assign(initializer(self.whole_shape, dtype=self.dtype))


def _distribute():
    # Losses and layers work without TensorFlow, too.
    import tensorflow as tf

    return tf.distribute
