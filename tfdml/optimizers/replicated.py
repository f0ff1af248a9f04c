"""Keras' optimizers on several replicas whose gradients are summed already, and may be those of shards."""

import keras

from tfdml.runtime.keras_internals import replace_sum_over_replicas
from tfdml.runtime.sharded_variable import ShardedVariable

# Optimizers that treat each number by itself, so that a shard's are those that it would have in the whole.
ELEMENTWISE = (
    keras.optimizers.Adagrad,
    keras.optimizers.Adam,
    keras.optimizers.Adamax,
    keras.optimizers.Lion,
    keras.optimizers.RMSprop,
    keras.optimizers.SGD,
)


def prepare_for_replicas(optimizer, replicas):
    """Lets a Keras optimizer of several replicas take gradients that are an equal share of the sum on each of them.

    These need no exchange, and so it takes those of shards, too. What it keeps for a `ShardedVariable` is one itself.
    """
    if replicas == 1:
        return
    replace_sum_over_replicas(optimizer, lambda pairs: [(_times(gradient, replicas), each) for gradient, each in pairs])
    make = type(optimizer).add_variable_from_reference

    def add_variable_from_reference(reference_variable, *args, **kwargs):
        made = make(optimizer, reference_variable, *args, **kwargs)
        is_sharded = isinstance(reference_variable, ShardedVariable)
        return ShardedVariable.like(made, reference_variable) if is_sharded else made

    vars(optimizer)["add_variable_from_reference"] = add_variable_from_reference


def check_elementwise(optimizer):
    """Raises a ValueError for an optimizer that would treat a shard in another way than the whole."""
    if not isinstance(optimizer, ELEMENTWISE):
        known = ", ".join(each.__name__ for each in ELEMENTWISE)
        raise ValueError(
            f"{type(optimizer).__name__} may change a number by more than its own gradients, so that it would treat "
            f"shards in another way than the whole. With sharded=True take {known}, or what derives from them."
        )


def _times(gradient, replicas):
    return None if gradient is None else gradient * replicas
