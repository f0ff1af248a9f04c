"""Private names of Keras and TensorFlow are where tfdml looks for them, and do what it takes them for.

`make test-keras-next` runs this file with Keras' newest nightly. `devices_per_worker` needs workers:
tests/test_distribution.py has some.
"""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfdml.functional.checks
from tfdml.losses.triplet import Triplet
from tfdml.runtime import keras_internals


@pytest.fixture
def optimizer():
    made = keras.optimizers.AdamW(weight_decay=0.1)
    variables = [keras.Variable(np.ones(2, np.float32), name=name) for name in ("kernel", "bias")]
    made.exclude_from_weight_decay(var_names=["bias"])
    made.build(variables)
    return made


OWNERS = {"Model": keras.Model, "Optimizer": keras.optimizers.Optimizer, "Layer": keras.layers.Layer}
OWNERS["Variable"] = keras.Variable


@pytest.mark.parametrize("owner", keras_internals.OVERRIDDEN)
def test_keras_has_what_is_overridden(owner):
    name = keras_internals.OVERRIDDEN[owner]
    thing = keras.layers.Dense(1) if owner == "Layer" else OWNERS[owner]
    if owner == "Layer":
        thing.build((None, 2))
    assert hasattr(thing, name), f"keras.{owner}.{name} has moved"


def test_fit_asks_for_a_symbolic_build():
    asked = []

    class Model(keras.Sequential):
        def _maybe_symbolic_build(self, *args, **kwargs):
            asked.append(True)
            return super()._maybe_symbolic_build(*args, **kwargs)

    model = Model([keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    model.fit(np.ones((2, 3)), np.ones((2, 1)), verbose=0)
    assert asked


def test_an_optimizer_decays_all_variables_at_once(optimizer, monkeypatch):
    asked = []
    monkeypatch.setattr(type(optimizer), "_apply_weight_decay", lambda self, variables: asked.append(variables))
    optimizer.apply([tf.ones(2), tf.ones(2)])
    assert len(asked) == 1


def test_calls_of_a_graph_come_in_its_order():
    images, layer = keras.Input((4,)), keras.layers.Dense(4)
    output = layer(layer(images) + 1.0)
    layer(output)
    calls = keras_internals.calls_of(images, output)
    assert [type(call.operation).__name__ for call in calls] == ["InputLayer", "Dense", "Add", "Dense"]
    assert calls[0].outputs[0] is images and calls[-1].outputs[0] is output
    for one, other in zip(calls, calls[1:], strict=False):
        assert other.input_tensors[0] is one.outputs[0]
    args, kwargs = calls[1].arguments.fill_in({id(images): "in its place"})
    assert args == ("in its place",) and kwargs == {}


def test_layers_are_found_at_any_depth():
    inner = keras.Sequential([keras.layers.Dense(2, name="inside")])
    model = keras.Sequential([keras.Input((3,)), inner])
    assert "inside" in [layer.name for layer in keras_internals.layers_of(model)]


def test_a_saved_model_names_the_calls_of_a_layer_that_are_not_forgotten():
    layer = keras.layers.Dense(2)
    with keras_internals.calls_forgotten(layer):
        layer(keras.Input((3,)))
    images = keras.Input((3,))
    (called,) = keras.Model(images, layer(images)).get_config()["layers"][1]["inbound_nodes"]
    assert called["args"][0]["config"]["keras_history"][1] == 0 and len(layer._inbound_nodes) == 1


def test_names_of_forgotten_objects_are_given_again():
    before = keras.layers.Dense(2).name
    with keras_internals.names_forgotten():
        inside = keras.layers.Dense(2).name
    assert keras.layers.Dense(2).name == inside != before


def test_variables_of_an_optimizer(optimizer):
    kernel, bias = keras_internals.trained_variables(optimizer)
    assert (kernel.name, bias.name) == ("kernel", "bias")
    assert [keras_internals.place_of(optimizer, each) for each in (kernel, bias)] == [0, 1]
    assert keras_internals.decays(optimizer, kernel) and not keras_internals.decays(optimizer, bias)


def test_an_optimizer_sums_over_replicas_where_it_is_replaced(optimizer):
    variables, asked = keras_internals.trained_variables(optimizer), []

    def summed(pairs):
        asked.extend(variable for _, variable in pairs)
        return [(2.0 * gradient, variable) for gradient, variable in pairs]

    keras_internals.replace_sum_over_replicas(optimizer, summed)
    optimizer.apply([tf.ones(2), tf.ones(2)])
    assert len(asked) == len(variables)


def test_iterations_are_replaced_within_the_context(optimizer):
    before = optimizer.iterations
    with keras_internals.iterations_replaced(optimizer, tf.constant(7)):
        assert int(optimizer.iterations) == 7
    assert optimizer.iterations is before


def test_the_spec_of_a_batch():
    """Keras' iterator of a dataset, as `fit` makes it."""
    found = []

    class Model(keras.Sequential):
        def _maybe_symbolic_build(self, iterator=None, data_batch=None):
            found.append(keras_internals.batch_spec(iterator))
            return super()._maybe_symbolic_build(iterator=iterator, data_batch=data_batch)

    model = Model([keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    model.fit(np.ones((2, 3), np.float32), np.ones((2, 1), np.float32), verbose=0)
    images = tf.nest.map_structure(keras_internals.spec_of_one_replica, found[0])[0]
    assert images.shape[1:] == [3]


def test_the_graph_of_a_function_that_is_called():
    @tf.function
    def inner(x):
        return tf.sin(x)

    graph = tf.function(lambda x: inner(x)).get_concrete_function(tf.TensorSpec([])).graph
    call = next(each for each in graph.get_operations() if each.type.endswith("PartitionedCall"))
    inside = keras_internals.graph_of(graph, call.get_attr("f").name)
    assert "Sin" in [each.type for each in inside.get_operations()]


class Refuses(keras.layers.Layer):
    """Raises an error of tfdml, within two layers of Keras, or one of its own."""

    def __init__(self, error, inside=None):
        super().__init__()
        self.error, self.inside = error, inside

    def call(self, inputs):
        return self.inside(inputs) if self.inside else self.error(inputs)


def error_of_tfdml(inputs):
    return tfdml.functional.checks.check_pairs_input(inputs, inputs)


def wrong_argument(inputs):
    return Triplet(mining="hardest").call(np.arange(3), inputs)


def error_of_a_user(inputs):
    raise ValueError("Mine.")


@pytest.mark.parametrize("symbolic", [False, True])
def test_an_error_of_tfdml_leaves_keras_as_it_was_raised(symbolic):
    inputs = keras.Input((2, 2)) if symbolic else np.ones((3, 2, 2))
    nested = Refuses(None, inside=Refuses(error_of_tfdml))
    with pytest.raises(ValueError, match="Exception encountered when calling"):
        nested(inputs)
    with pytest.raises(
        ValueError, match=r"^Expected embeddings of shape \[batch, dim\]\. Received: shape=\(\w+, 2, 2\)\.$"
    ):
        with keras_internals.errors_as_raised():
            nested(inputs)
    # The cause of an error of tfdml is not all of it.
    with pytest.raises(ValueError, match="Unknown miner 'hardest'. Did you mean 'hard'"):
        with keras_internals.errors_as_raised():
            Refuses(None, inside=Refuses(wrong_argument))(inputs)
    # Keras tells what a layer of the user was called with.
    with pytest.raises(ValueError, match="(?s)Exception encountered when calling.*Mine"):
        with keras_internals.errors_as_raised():
            Refuses(error_of_a_user)(inputs)


def test_a_model_is_saved_and_loaded_as_one_that_is_not_compiled(tmp_path, recwarn):
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(100)])
    model.compile("adam", "mse")
    batch = np.ones((2, 3)), np.ones((2, 100))
    model.fit(*batch, verbose=0)
    optimizer, expected = model.optimizer, model.get_weights()
    model.save(tmp_path / "compiled.keras")
    with keras_internals.not_compiled(model):
        model.save(tmp_path / "model.keras")
    sizes = [(tmp_path / name).stat().st_size for name in ("model.keras", "compiled.keras")]
    assert sizes[0] < sizes[1] - 2 * 4 * model.count_params()
    assert model.optimizer is optimizer and model.compiled
    # Training goes on with the state that it had.
    model.fit(*batch, verbose=0)
    assert int(optimizer.iterations) == 2
    with keras_internals.not_compiled(model):
        model.load_weights(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert not loaded.compiled and int(optimizer.iterations) == 2
    told = [str(each.message) for each in recwarn.list if "optimizer" in str(each.message)]
    assert not told, told
    for each in (model, loaded):
        for found, weight in zip(each.get_weights(), expected, strict=True):
            np.testing.assert_array_equal(found, weight)
