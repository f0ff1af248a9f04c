"""Differentiable exchange between the replicas of a distribution strategy, and fused batch normalization."""

from typing import Any

import keras
import tensorflow as tf

from tfdml.functional.checks import at_least_float32
from tfdml.layers.norms import batch_norms, moves_statistics
from tfdml.methods.step.parts import message_of_check
from tfdml.optimizers.layer_rules import LayerGroups
from tfdml.runtime.sharded_variable import ShardedVariable


def gather(values: Any) -> Any:
    """Concatenates `[b, ...]` of all replicas to `[replicas * b, ...]` on each of them, with gradients.

    Every replica writes its rows into an array of zeros, and the arrays are summed. Unlike `all_gather`, this works
    under both MirroredStrategy and MultiWorkerMirroredStrategy.
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


def sum_gradients(gradients: Any, variables: Any) -> Any:
    """Sums every gradient over replicas. None stays None, and sparse gradients become dense.

    All gradients become at least float32, because the variables of a half-precision network and of a loss have
    different dtypes. Gradients of shards stay unchanged, because each replica has the whole gradient of its shard.
    """
    gradients = [None if each is None else at_least_float32(tf.convert_to_tensor(each)) for each in gradients]
    context = tf.distribute.get_replica_context()
    if context.num_replicas_in_sync == 1:
        return gradients
    added = [_is_summed(*each) for each in zip(gradients, variables, strict=True)]
    shares = [gradient for gradient, adds in zip(gradients, added, strict=True) if adds]
    summed = iter(context.all_reduce(tf.distribute.ReduceOp.SUM, shares))
    return [next(summed) if adds else gradient for gradient, adds in zip(gradients, added, strict=True)]


def norm_of(gradients: Any, variables: Any) -> Any:
    """Returns the global norm of gradients that are summed over replicas."""
    pairs = [each for each in zip(gradients, variables, strict=True) if each[0] is not None]
    of_shards = [gradient for gradient, variable in pairs if isinstance(variable, ShardedVariable)]
    if not of_shards:
        return tf.linalg.global_norm([gradient for gradient, _ in pairs])
    others = [gradient for gradient, variable in pairs if not isinstance(variable, ShardedVariable)]
    squared = tf.square(tf.linalg.global_norm(of_shards))
    squared = tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, squared)
    return tf.sqrt(squared + tf.cast(tf.square(tf.linalg.global_norm(others)), squared.dtype) if others else squared)


def apply_summed_gradients(optimizer, gradients, variables):
    """Applies gradients that are already summed over replicas, clipped as the Keras optimizer specifies."""
    replicas = tf.distribute.get_replica_context().num_replicas_in_sync
    if replicas > 1 and optimizer.global_clipnorm:
        gradients = _clip(optimizer, gradients, variables)
    # With several replicas, the optimizer expects equal shares; see `prepare_for_replicas`.
    shares = [None if gradient is None else gradient / replicas for gradient in gradients]
    optimizer.apply(shares, variables)


def _is_summed(gradient, variable):
    return gradient is not None and not isinstance(variable, ShardedVariable)


def _clip(optimizer, gradients, variables):
    """Clips the gradients to the optimizer's `global_clipnorm`.

    Keras would clip the share of each replica instead, which is smaller than the whole gradient.
    """
    if isinstance(optimizer, LayerGroups):
        gradients = optimizer.without_frozen(gradients, variables)
    norm = norm_of(gradients, variables)
    return tf.clip_by_global_norm(gradients, optimizer.global_clipnorm, use_norm=norm)[0]


def average_moving_statistics(variables):
    """Sets floating-point variables without gradients to their mean over replicas.

    The batch normalization of each replica only sees its share of the batch. Otherwise, one replica's values would be
    evaluated and saved, and they would change when a run is resumed.
    """
    context = tf.distribute.get_replica_context()
    moving = [variable.value for variable in variables if tf.as_dtype(variable.dtype).is_floating]
    if context.num_replicas_in_sync == 1 or not moving:
        return
    # Several workers can only reduce tensors with a device, and tf.identity sets the device.
    values = [tf.identity(tf.convert_to_tensor(value)) for value in moving]
    means = context.all_reduce(tf.distribute.ReduceOp.MEAN, values)
    for variable, mean in zip(moving, means, strict=True):
        variable.assign(mean)


def mean_of_replicas(values):
    """Averages each scalar of a dictionary over replicas."""
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
            f"The batch cannot be divided evenly among {replicas} replicas. Use a batch size that is a multiple of "
            f"{replicas}, and drop_remainder=True."
        ),
    )
    return [check]


# Convolutions into which batch normalization can be fused, and the attributes to copy.
CONVOLUTIONS = ("Conv2D", "DepthwiseConv2dNative")
ATTRIBUTES = ("strides", "padding", "explicit_paddings", "data_format", "dilations")
SUMS = ("AddV2", "BiasAdd")


def fuse_batch_norms(model: Any) -> None:
    """Makes each batch normalization of a model faster, with fewer passes over its input than in Keras.

    With moving statistics, batch normalization is `a * x + c` for each channel, where `a = gamma / sqrt(variance +
    epsilon)` and `c = beta - a * mean`. After a convolution `x = w * z + b`, it becomes another convolution,
    `(a w) * z + (a b + c)`, which replaces both, because TensorFlow removes unused operations from a graph. With the
    statistics of a batch, it becomes a single TensorFlow operation. Results are equal to Keras' results up to rounding.
    """
    for layer in batch_norms(model):
        if _is_plain(layer) and "fused" not in vars(layer):
            layer.fused = True
            layer.call = _fused(layer, layer.call)


def _is_plain(layer):
    """Whether a layer is Keras' own batch normalization in float32 and without special options."""
    of_keras = type(layer).call is keras.layers.BatchNormalization.call
    return of_keras and layer.compute_dtype == "float32" and not (layer.synchronized or layer.renorm)


def _fused(layer, of_keras):
    def call(inputs, training=None, mask=None):
        usual = mask is None and len(inputs.shape) == 4 and layer.axis in (-1, 3) and inputs.dtype == tf.float32
        if usual and training and moves_statistics(layer):
            return _with_statistics_of_batch(layer, inputs)
        convolution = _convolution_of(inputs) if usual else None
        if convolution is None:
            return of_keras(inputs, training=training, mask=mask)
        return _in_convolution(layer, *convolution)

    return call


def _with_statistics_of_batch(layer, inputs):
    mean, variance = (tf.convert_to_tensor(each) for each in (layer.moving_mean, layer.moving_variance))
    outputs, batch_mean, batch_variance, *_ = tf.raw_ops.FusedBatchNormV3(
        x=inputs,
        scale=layer.gamma if layer.scale else tf.ones_like(mean),
        offset=layer.beta if layer.center else tf.zeros_like(mean),
        mean=[],
        variance=[],
        epsilon=layer.epsilon,
        is_training=True,
    )
    # TensorFlow divides the sum of squares by n - 1, but Keras divides it by n.
    count = tf.cast(tf.reduce_prod(tf.shape(inputs)[:3]), tf.float32)
    batch_variance *= tf.maximum(count - 1, 1) / count
    for variable, before, of_batch in (
        (layer.moving_mean, mean, batch_mean),
        (layer.moving_variance, variance, batch_variance),
    ):
        variable.assign(before * layer.momentum + of_batch * (1.0 - layer.momentum))
    return outputs


def _convolution_of(inputs):
    """Returns the convolution that computed `inputs` and its bias or None. Returns None for other operations."""
    if not tf.is_symbolic_tensor(inputs):
        return None
    operation, bias = inputs.op, None
    if operation.type in SUMS:
        before, bias = operation.inputs
        if bias.shape.num_elements() != inputs.shape[-1] or bias.shape[-1] != inputs.shape[-1]:
            return None
        operation = before.op
    known = operation.type in CONVOLUTIONS and operation.get_attr("data_format") == b"NHWC"
    return (operation, bias) if known else None


def _in_convolution(layer, operation, bias):
    images, kernel = operation.inputs
    scale = tf.math.rsqrt(layer.moving_variance + layer.epsilon)
    if layer.scale:
        scale *= layer.gamma
    offset = -layer.moving_mean * scale
    if bias is not None:
        offset += tf.reshape(bias, [-1]) * scale
    if layer.center:
        offset += layer.beta
    # The output channels of a depthwise convolution are the last two dimensions of its kernel.
    factors = scale if operation.type == "Conv2D" else tf.reshape(scale, kernel.shape[2:])
    attributes = {name: operation.get_attr(name) for name in ATTRIBUTES}
    attributes = {name: value.decode() if isinstance(value, bytes) else value for name, value in attributes.items()}
    outputs = getattr(tf.raw_ops, operation.type)(input=images, filter=kernel * factors, **attributes)
    return tf.nn.bias_add(outputs, offset)
