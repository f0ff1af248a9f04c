"""All private names in Keras and TensorFlow that tfdml uses.

A new release may move any of them. Then tests/runtime/test_keras_internals.py fails and names it.
"""

import collections
import contextlib
import traceback

# Private methods that tfdml overrides in Keras classes, and attributes that it sets.
OVERRIDDEN = {
    # `KerasModel` creates variables there, before the step is traced.
    "Model": "_maybe_symbolic_build",
    # `LayerGroups` decays each variable with its own learning rate instead.
    "Optimizer": "_apply_weight_decay",
    # `VariableHolder` sets it, because `Model.summary` reads it.
    "Layer": "_build_shapes_dict",
    # `ShardedVariable` assigns each device its own rows there.
    "Variable": "_initialize_with_initializer",
}


@contextlib.contextmanager
def calls_forgotten(layer):
    """Returns a context after which a layer forgets its symbolic calls. Saved functional models number them from 0."""
    before = list(layer._inbound_nodes)
    try:
        yield
    finally:
        layer._inbound_nodes[:] = before


@contextlib.contextmanager
def names_forgotten():
    """Returns a context after which Keras numbers the names of new objects as if it had created none inside."""
    from keras.src.backend.common import global_state

    before = dict(global_state.get_global_attribute("object_name_uids", collections.defaultdict(int), True))
    try:
        yield
    finally:
        global_state.set_global_attribute("object_name_uids", collections.defaultdict(int, before))


# Text that Keras adds to the message of an error.
AROUND = ("Exception encountered when calling", "Could not automatically infer the output shape")


@contextlib.contextmanager
def errors_as_raised():
    """A context in which errors from tfdml are raised without the text that Keras adds to errors in a `call`."""
    try:
        yield
    except Exception as error:
        raised = as_raised(error)
        if raised is error or not is_ours(raised):
            raise
        raise raised from None


def as_raised(error):
    """Returns the original error if Keras raised it again, perhaps several times, with additional text."""
    before, text = error.__context__, str(error)
    wraps = any(words in text for words in AROUND) and before is not None and str(before)
    return as_raised(before) if wraps and str(before) in text else error


def is_ours(error):
    """Whether tfdml code raised an error."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    return bool(frames) and frames[-1].f_globals.get("__name__", "").split(".")[0] in ("tfdml", "pipelines")


def calls_of(inputs, output):
    """Returns the calls of operations (Keras nodes) in a graph of Keras tensors, from the inputs to the output."""
    import keras

    by_depth = keras.Function(inputs, output)._nodes_by_depth
    return [node for depth in sorted(by_depth, reverse=True) for node in by_depth[depth]]


def layers_of(model):
    """Returns the model and all layers in it, at any depth."""
    return model._flatten_layers()


def inner_layers(layer):
    """Returns the direct sublayers of a layer, in the order of their creation."""
    return list(layer._layers)


def trained_variables(optimizer):
    """Returns the variables that an optimizer was built for, in its order."""
    return optimizer._trainable_variables


def place_of(optimizer, variable):
    """Returns the index of a variable among those that the optimizer was built for."""
    return optimizer._get_variable_index(variable)


def decays(optimizer, variable):
    """Whether an optimizer's weight decay applies to a variable, see Keras' `exclude_from_weight_decay`."""
    return optimizer._use_weight_decay(variable)


@contextlib.contextmanager
def iterations_replaced(optimizer, steps):
    """Returns a context in which `optimizer.iterations` is the tensor `steps`."""
    # setattr would track the tensor as optimizer state.
    attributes = vars(optimizer)
    before = attributes["_iterations"]
    attributes["_iterations"] = steps
    try:
        yield
    finally:
        attributes["_iterations"] = before


@contextlib.contextmanager
def not_compiled(model):
    """Returns a context in which a model saves and loads weights as if it was not compiled, without its optimizer.

    Keras saves the state of the optimizer with every compiled model. The state of Adam is twice as large as the
    weights.
    """
    # setattr would track the optimizer again.
    attributes = vars(model)
    before = {name: attributes[name] for name in ("compiled", "optimizer") if name in attributes}
    attributes.update(dict.fromkeys(before))
    try:
        yield
    finally:
        attributes.update(before)


def replace_sum_over_replicas(optimizer, function):
    """Replaces the function that sums an optimizer's `[(gradient, variable), ...]` over replicas."""
    vars(optimizer)["_all_reduce_sum_gradients"] = function


def batch_spec(iterator):
    """Returns the spec of a batch from the iterator that Keras creates for a dataset."""
    return iterator._distributed_dataset.element_spec


def spec_of_one_replica(spec):
    """Returns the spec of one replica's tensor. `spec` may contain the specs of several replicas."""
    from tensorflow.python.distribute.values import PerReplicaSpec

    return spec._value_specs[0] if isinstance(spec, PerReplicaSpec) else spec


def devices_per_worker(strategy):
    """Returns the number of devices of each worker of a MultiWorkerMirroredStrategy."""
    return strategy.extended._num_devices_per_worker


def graph_of(graph, name):
    """Returns the graph of a function that operations of `graph` call."""
    return graph._get_function(name).graph


def kernel_of(layer):
    """Returns the variable of a layer's kernel. With low-rank changes (LoRA), `layer.kernel` is a sum."""
    return vars(layer)["_kernel"] if "_kernel" in vars(layer) else layer.kernel
