"""The global batch: what the replicas of a distribution strategy hold together, gathered with gradients."""

import tensorflow as tf

from tfdml.functional.checks import at_least_float32
from tfdml.methods.step.step_checks import message_of_check
from tfdml.optimizers.layer_rules import LayerGroups
from tfdml.runtime.sharded_variable import ShardedVariable


def gather(values):
    """Concatenates `[b, ...]` of all replicas to `[replicas * b, ...]`, the same on each, differentiable.

    Every replica puts its rows at its own place among zeros and all sum up; unlike `all_gather` this works under
    MirroredStrategy and MultiWorkerMirroredStrategy alike.
    """
    context = tf.distribute.get_replica_context()
    replicas = context.num_replicas_in_sync
    if replicas == 1:
        return values
    if values.dtype == tf.bool:
        return tf.cast(gather(tf.cast(values, tf.int32)), tf.bool)
    with tf.control_dependencies(_same_size_everywhere(values, context, replicas)):
        place = tf.one_hot(context.replica_id_in_sync_group, replicas, dtype=values.dtype)
        padded = tf.reshape(place, [replicas] + [1] * values.shape.rank) * values[None]
    gathered = context.all_reduce(tf.distribute.ReduceOp.SUM, padded)
    return tf.reshape(gathered, tf.concat([[replicas * tf.shape(values)[0]], tf.shape(values)[1:]], axis=0))


def sum_gradients(gradients, variables):
    """The sum of every gradient over replicas; None stays None, and what lookups give as rows becomes dense.

    Variables of a network in half precision and of a loss differ in dtype; all gradients are at least float32. Those of
    shards stay as they are: each replica has the whole gradient of its own.
    """
    gradients = [None if each is None else at_least_float32(tf.convert_to_tensor(each)) for each in gradients]
    context = tf.distribute.get_replica_context()
    if context.num_replicas_in_sync == 1:
        return gradients
    added = [_is_summed(*each) for each in zip(gradients, variables, strict=True)]
    shares = [gradient for gradient, adds in zip(gradients, added, strict=True) if adds]
    summed = iter(context.all_reduce(tf.distribute.ReduceOp.SUM, shares))
    return [next(summed) if adds else gradient for gradient, adds in zip(gradients, added, strict=True)]


def norm_of(gradients, variables):
    """The length of all gradients together, once these are summed over replicas."""
    pairs = [each for each in zip(gradients, variables, strict=True) if each[0] is not None]
    of_shards = [gradient for gradient, variable in pairs if isinstance(variable, ShardedVariable)]
    if not of_shards:
        return tf.linalg.global_norm([gradient for gradient, _ in pairs])
    others = [gradient for gradient, variable in pairs if not isinstance(variable, ShardedVariable)]
    squared = tf.square(tf.linalg.global_norm(of_shards))
    squared = tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, squared)
    return tf.sqrt(squared + tf.cast(tf.square(tf.linalg.global_norm(others)), squared.dtype) if others else squared)


def apply_summed_gradients(optimizer, gradients, variables):
    """Lets a Keras optimizer apply gradients that are summed over replicas already, clipped as it says."""
    replicas = tf.distribute.get_replica_context().num_replicas_in_sync
    if replicas > 1 and optimizer.global_clipnorm:
        gradients = _clip(optimizer, gradients, variables)
    # The optimizer of several replicas takes equal shares; see `tfdml.optimizers.optimizers`.
    shares = [None if gradient is None else gradient / replicas for gradient in gradients]
    optimizer.apply(shares, variables)


def _is_summed(gradient, variable):
    return gradient is not None and not isinstance(variable, ShardedVariable)


def _clip(optimizer, gradients, variables):
    """The gradients, together no longer than the optimizer's `global_clipnorm`.

    Keras would hold each replica's share to that length, which one of these keeps already.
    """
    if isinstance(optimizer, LayerGroups):
        gradients = optimizer.without_frozen(gradients, variables)
    norm = norm_of(gradients, variables)
    return tf.clip_by_global_norm(gradients, optimizer.global_clipnorm, use_norm=norm)[0]


def average_moving_statistics(variables):
    """Gives every replica the mean over replicas of floating point variables that no gradient moves.

    Each replica's batch normalization sees its own share of the batch only; without this, what is evaluated and saved
    would be one replica's and change where a run goes on.
    """
    context = tf.distribute.get_replica_context()
    moving = [variable.value for variable in variables if tf.as_dtype(variable.dtype).is_floating]
    if context.num_replicas_in_sync == 1 or not moving:
        return
    # Identity, because a variable's own tensor names no device, which several workers need to reduce it.
    values = [tf.identity(tf.convert_to_tensor(value)) for value in moving]
    means = context.all_reduce(tf.distribute.ReduceOp.MEAN, values)
    for variable, mean in zip(moving, means, strict=True):
        variable.assign(mean)


def mean_of_replicas(values):
    """A dictionary of scalars, each averaged over replicas."""
    context = tf.distribute.get_replica_context()
    if context.num_replicas_in_sync == 1:
        return values
    return {name: context.all_reduce(tf.distribute.ReduceOp.MEAN, value) for name, value in values.items()}


def _same_size_everywhere(values, context, replicas):
    if values.shape[0] is not None:
        return []
    size = tf.shape(values)[0]
    total = context.all_reduce(tf.distribute.ReduceOp.SUM, size)
    check = tf.debugging.assert_equal(
        total,
        size * replicas,
        message=message_of_check(
            f"The batch does not split evenly over {replicas} replicas. Use a batch size that is a multiple of "
            f"{replicas}, and drop_remainder=True."
        ),
    )
    return [check]
