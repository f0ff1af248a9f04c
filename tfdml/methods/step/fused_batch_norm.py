"""Batch normalization as part of the convolution before it, or as one operation."""

import keras
import tensorflow as tf

from tfdml.layers.norms import batch_norms, freeze_batch_norm, moves_statistics

# Convolutions and their attributes.
CONVOLUTIONS = ("Conv2D", "DepthwiseConv2dNative")
ATTRIBUTES = ("strides", "padding", "explicit_paddings", "data_format", "dilations")
SUMS = ("AddV2", "BiasAdd")


def prepare_batch_norms(model):
    """Freezes the batch normalization of a model's backbones as the model says, and fuses all of the model."""
    for number, backbone in enumerate(model.backbones()):
        # Copies of a part may have none; the backbone itself has to.
        if number == 0 or batch_norms(backbone):
            freeze_batch_norm(backbone, model.freeze_batch_norm)
    fuse_batch_norms(model)


def fuse_batch_norms(model):
    """Lets each batch normalization of a model compute what Keras' does with fewer passes over its input.

    With moving statistics it is `a * x + c` for each channel, with `a = gamma / sqrt(variance + epsilon)` and
    `c = beta - a * mean`. Behind a convolution `x = w * z + b` this is another convolution, `(a w) * z + (a b + c)`,
    which takes the place of both: TensorFlow leaves out of a graph what nothing uses. With the statistics of a batch
    it is a single operation of TensorFlow. Results are equal to Keras' up to rounding.
    """
    for layer in batch_norms(model):
        if _is_plain(layer) and "fused" not in vars(layer):
            layer.fused = True
            layer.call = _fused(layer, layer.call)


def _is_plain(layer):
    """Whether Keras' own call would work on float32 images with channels last."""
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
    # TensorFlow divides by one less than the number of values, Keras by the number.
    count = tf.cast(tf.reduce_prod(tf.shape(inputs)[:3]), tf.float32)
    batch_variance *= tf.maximum(count - 1, 1) / count
    for variable, before, of_batch in (
        (layer.moving_mean, mean, batch_mean),
        (layer.moving_variance, variance, batch_variance),
    ):
        variable.assign(before * layer.momentum + of_batch * (1.0 - layer.momentum))
    return outputs


def _convolution_of(inputs):
    """Returns the operation of the convolution whose output this is, and its bias or None; None if it is of another."""
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
    # A depthwise convolution has the last two dimensions of its kernel side by side.
    factors = scale if operation.type == "Conv2D" else tf.reshape(scale, kernel.shape[2:])
    attributes = {name: operation.get_attr(name) for name in ATTRIBUTES}
    attributes = {name: value.decode() if isinstance(value, bytes) else value for name, value in attributes.items()}
    outputs = getattr(tf.raw_ops, operation.type)(input=images, filter=kernel * factors, **attributes)
    return tf.nn.bias_add(outputs, offset)
