"""Counts the parameters of a network and its multiply-adds per image."""

import math
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tfdml.runtime.backends import refuse_unless_tensorflow
from tfdml.runtime.keras_internals import graph_of

if TYPE_CHECKING:
    from keras import Model
else:
    # Evaluating embedding files must not import Keras.
    Model = Any

# For each operation, the number of kernel axes that are summed over, or the attribute that transposes a matrix.
KERNELS = {"Conv2D": 3, "DepthwiseConv2dNative": 2}
MATRICES = {"MatMul": "transpose_a", "BatchMatMulV2": "adj_x"}
CALLS = ("PartitionedCall", "StatefulPartitionedCall")
NOT_COUNTED = ("Conv3D", "Einsum")
# Operations that may lie between a product and a constant.
PASSED_ON = ("Cast", "Identity", "Reshape", "Transpose")


def cost(model: Model, input_shape: Sequence[int]) -> dict[str, int | None]:
    """Counts the parameters of a model and its multiply-adds for one input.

    Use this function to report how large and how fast a model is. Both numbers are read from the TensorFlow graph.
    Multiply-adds, which most papers and libraries call FLOPs, are counted for convolutions and matrix products.
    Pooling, normalization, other elementwise operations and products with constants, such as in local response
    normalization, are not counted. Parameters are trainable weights that the graph reads. The weights of the loss, such
    as proxies, are not counted.

    Args:
        model: Keras model.
        input_shape: Tuple of integers. Shape of one input without the batch axis, such as `(224, 224, 3)`.

    Returns:
        `{"parameters": integer, "multiply_adds": integer}`. `multiply_adds` is `None` if the graph contains products of
        a kind that cannot be counted, such as 3D convolutions.

    Example:

    ```python
    model = keras.Sequential([keras.Input([8]), keras.layers.Dense(4)])
    tfdml.evaluation.cost(model, [8])  # {'parameters': 36, 'multiply_adds': 32}
    ```
    """
    refuse_unless_tensorflow("tfdml.evaluation.cost", "Remove the call")
    import tensorflow as tf

    inputs = tf.TensorSpec([1, *input_shape], tf.float32)
    if not model.built:
        # Call the model once, because its variables cannot be created inside a graph.
        model(tf.zeros(inputs.shape), training=False)
    traced = tf.function(lambda inputs: model(inputs, training=False), autograph=False).get_concrete_function(inputs)
    operations = list(_operations(traced.graph))
    of_loss = _weights_of_loss(model)
    read = {id(variable) for variable in traced.graph.variables}
    weights = [weight for weight in model.trainable_weights if id(weight) not in of_loss and id(weight.value) in read]
    return {
        "parameters": sum(math.prod(weight.shape) for weight in weights),
        "multiply_adds": None
        if any(operation.type in NOT_COUNTED for operation in operations)
        else sum(_products(operation) for operation in operations),
    }


def _operations(graph):
    """Yields the operations that a graph's outputs depend on, also in the functions that it calls."""
    left, seen = [output.op for output in graph.outputs], set()
    while left:
        operation = left.pop()
        if operation.name in seen:
            continue
        seen.add(operation.name)
        yield operation
        left += [tensor.op for tensor in operation.inputs]
        if operation.type in CALLS:
            yield from _operations(graph_of(graph, operation.get_attr("f").name))


def _products(operation):
    if operation.type not in (*KERNELS, *MATRICES):
        return 0
    source = operation.inputs[1].op
    while source.type in PASSED_ON:
        source = source.inputs[0].op
    if source.type == "Const":
        return 0
    first, second = (tensor.shape for tensor in operation.inputs)
    results = math.prod(operation.outputs[0].shape)
    if operation.type in KERNELS:
        return results * math.prod(second[: KERNELS[operation.type]])
    transposed = operation.get_attr(MATRICES[operation.type])
    return results * first[-2 if transposed else -1]


def parameters_of(model):
    """Returns the number of parameters that embed images with a Keras model, trainable or not."""
    of_loss = _weights_of_loss(model)
    return sum(math.prod(weight.shape) for weight in model.weights if id(weight) not in of_loss)


def _weights_of_loss(model):
    """Returns the ids of the weights that only the loss needs."""
    # The model may be any Keras model. Only tfdml models have `loss_layers`.
    loss_layers = getattr(model, "loss_layers", None)
    return {id(weight) for weight in loss_layers.variables} if loss_layers else set()


def images_per_second(model, input_shape, batch_size=32, repeats=3):
    """Measures how many inputs of a shape a Keras model computes per second, in batches, on the devices it uses."""
    images, seconds = np.zeros((batch_size, *input_shape), np.float32), []
    # The first batch is slow.
    for _ in range(1 + repeats):
        begin = time.perf_counter()
        model.predict_on_batch(images)
        seconds.append(time.perf_counter() - begin)
    return round(batch_size / min(seconds[1:]), 1)
