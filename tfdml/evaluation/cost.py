"""The cost of a network: its parameters, and its multiply-adds for an image."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tfdml.runtime.keras_internals import graph_of

if TYPE_CHECKING:
    from keras import Model
else:
    # Embeddings are evaluated without Keras.
    Model = Any

# By operation: the number of kernel axes that are summed over, or the attribute that transposes a matrix.
KERNELS = {"Conv2D": 3, "DepthwiseConv2dNative": 2}
MATRICES = {"MatMul": "transpose_a", "BatchMatMulV2": "adj_x"}
CALLS = ("PartitionedCall", "StatefulPartitionedCall")
NOT_COUNTED = ("Conv3D", "Einsum")
# Operations that may be between a product and a constant.
PASSED_ON = ("Cast", "Identity", "Reshape", "Transpose")


def cost(model: Model, input_shape: Sequence[int]) -> dict[str, int | None]:
    """Counts the parameters, and the multiply-adds for one input, from the graph.

    Multiply-adds, which papers and libraries mostly call FLOPs, are those of convolutions and matrix products. Pooling,
    norms, other elementwise operations and products with constants, such as in local response norm, do not count.
    Only trainable parameters that the graph reads count, without those of the loss.

    Args:
        model: Keras model.
        input_shape: shape of an input, such as (224, 224, 3).

    Returns:
        `{"parameters": number, "multiply_adds": number}`, the latter None if the graph has other kinds of products.
    """
    import tensorflow as tf

    inputs = tf.TensorSpec([1, *input_shape], tf.float32)
    if not model.built:
        # Creates the variables, which cannot be created inside a graph.
        model(tf.zeros(inputs.shape), training=False)
    traced = tf.function(lambda inputs: model(inputs, training=False), autograph=False).get_concrete_function(inputs)
    operations = list(_operations(traced.graph))
    # Any model of Keras can be asked for its cost; those of tfdml have layers of the loss.
    loss_layers = getattr(model, "loss_layers", None)
    of_loss = {id(weight) for weight in loss_layers.variables} if loss_layers else set()
    read = {id(variable) for variable in traced.graph.variables}
    weights = [weight for weight in model.trainable_weights if id(weight) not in of_loss and id(weight.value) in read]
    return {
        "parameters": sum(math.prod(weight.shape) for weight in weights),
        "multiply_adds": None
        if any(operation.type in NOT_COUNTED for operation in operations)
        else sum(_products(operation) for operation in operations),
    }


def _operations(graph):
    """Returns the operations that a graph's outputs depend on, and those of the functions it calls: no others run."""
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
