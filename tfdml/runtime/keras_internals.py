"""Every private name of Keras and TensorFlow that tfdml uses.

A new release may move any of them; tests/runtime/test_keras_internals.py then fails with the one that moved.
"""

import contextlib
import traceback

# Private methods of Keras' classes that tfdml overrides, and attributes that it sets: class of Keras to name.
OVERRIDDEN = {
    # `KerasModel` makes variables there, before the step is traced.
    "Model": "_maybe_symbolic_build",
    # `LayerGroups` decays each variable by its own learning rate instead.
    "Optimizer": "_apply_weight_decay",
    # `VariableHolder` sets it: `Model.summary` reads it.
    "Layer": "_build_shapes_dict",
    # `ShardedVariable` gives each device its own rows there.
    "Variable": "_initialize_with_initializer",
}


@contextlib.contextmanager
def calls_forgotten(layer):
    """Returns a context whose symbolic calls of a layer are forgotten. A saved functional model numbers them from 0."""
    before = list(layer._inbound_nodes)
    try:
        yield
    finally:
        layer._inbound_nodes[:] = before


# Words of Keras around the text of an error.
AROUND = ("Exception encountered when calling", "Could not automatically infer the output shape")


@contextlib.contextmanager
def errors_as_raised():
    """A context that errors of tfdml leave as they were raised, without what Keras writes around those in a `call`."""
    try:
        yield
    except Exception as error:
        raised = as_raised(error)
        if raised is error or not is_ours(raised):
            raise
        raise raised from None


def as_raised(error):
    """The error behind one that Keras raised anew, perhaps several times, each with the text of the one before."""
    before, text = error.__context__, str(error)
    wraps = any(words in text for words in AROUND) and before is not None and str(before)
    return as_raised(before) if wraps and str(before) in text else error


def is_ours(error):
    """Whether code of this project raised an error."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    return bool(frames) and frames[-1].f_globals.get("__name__", "").split(".")[0] in ("tfdml", "pipelines")


def calls_of(inputs, output):
    """Returns the calls of operations in a graph of Keras tensors, Keras' nodes, from its inputs to its output."""
    import keras

    by_depth = keras.Function(inputs, output)._nodes_by_depth
    return [node for depth in sorted(by_depth, reverse=True) for node in by_depth[depth]]


def layers_of(model):
    """Returns the model and all layers in it, at any depth."""
    return model._flatten_layers()


def inner_layers(layer):
    """Returns the layers that a layer is made of, in the order in which it made them, without theirs."""
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
    # Not by setattr, which would track the tensor as optimizer state.
    attributes = vars(optimizer)
    before = attributes["_iterations"]
    attributes["_iterations"] = steps
    try:
        yield
    finally:
        attributes["_iterations"] = before


@contextlib.contextmanager
def not_compiled(model):
    """Returns a context in which a model is saved, and loads weights, as one that is not compiled: without optimizer.

    Keras saves the optimizer's state with any model that is compiled: that of Adam is twice as large as the weights.
    """
    # Not by setattr, which would track the optimizer again.
    attributes = vars(model)
    before = {name: attributes[name] for name in ("compiled", "optimizer") if name in attributes}
    attributes.update(dict.fromkeys(before))
    try:
        yield
    finally:
        attributes.update(before)


def replace_sum_over_replicas(optimizer, function):
    """Replaces an optimizer's sum over replicas of what they bring, a function of `[(gradient, variable), ...]`."""
    vars(optimizer)["_all_reduce_sum_gradients"] = function


def batch_spec(iterator):
    """The specs of one replica's share of a batch, from the iterator that Keras makes of a dataset."""
    return iterator._distributed_dataset.element_spec


def spec_of_one_replica(spec):
    """A spec of one replica's tensor, where `spec` may name those of several."""
    from tensorflow.python.distribute.values import PerReplicaSpec

    return spec._value_specs[0] if isinstance(spec, PerReplicaSpec) else spec


def devices_per_worker(strategy):
    """Returns the number of devices of each worker of a MultiWorkerMirroredStrategy."""
    return strategy.extended._num_devices_per_worker


def graph_of(graph, name):
    """The graph of a function that operations of `graph` call."""
    return graph._get_function(name).graph
