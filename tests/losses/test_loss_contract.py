"""What holds for every registered loss; see the fixture `loss_spec` in conftest."""

import inspect
import json

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tfdml import registry
from tfdml.layers import LossLayer
from tfdml.layers.loss_layer import layer_of
from tfdml.losses import Regularizer
from tfdml.registry.loss_hooks import hooks_of

# What a loss holds constant makes its gradient another one than its value's; its own test checks it.
WEIGHTS_HELD_CONSTANT = {
    "circle",
    "margin",
    "margin(learn_beta='per_class', nu=0.5, classes=7)",
    "ranked_list",
    "ranked_list_simpler",
    "simsiam",
    "triplet(mining='batch_hard') + 0.5*simsiam(hidden=3)",
    "triplet(mining='distance_weighted')",
}

# The first view of an image is another one than the second.
VIEWS_IN_ORDER = {"barlow_twins(projector=(8, 4))"}

few = settings(max_examples=4, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture
def loss(loss_spec):
    return registry.create("loss", loss_spec)


@pytest.fixture
def one_loss(one_spec_a_loss):
    return registry.create("loss", one_spec_a_loss)


@pytest.fixture
def feed(loss, make_feed):
    return make_feed(loss)


@pytest.fixture
def compute(loss, feed):
    return lambda labels, embeddings: loss.call(labels, feed(labels, embeddings))


def value_and_gradient(compute, labels, embeddings):
    variable = tf.Variable(embeddings)
    with tf.GradientTape() as tape:
        values = compute(tf.constant(labels), variable)
    return values.numpy(), tf.convert_to_tensor(tape.gradient(values, variable)).numpy()


@pytest.mark.few_by_day(28)
def test_one_value_an_anchor_in_the_precision_given(compute, make_batch):
    for dtype in ("float32", "float64"):
        labels, embeddings = make_batch(9, dtype=dtype)
        values = compute(labels, embeddings)
        assert values.shape == (9,) and values.dtype == dtype
        assert np.all(np.isfinite(values)) and np.any(values.numpy() != 0)


@pytest.mark.parametrize("normalised", [True, False])
@pytest.mark.few_by_day(60)
def test_gradient_agrees_with_differences(loss_spec, compute, make_batch, normalised):
    if loss_spec in WEIGHTS_HELD_CONSTANT:
        pytest.skip("its gradient is not that of its value, on purpose")
    labels, embeddings = make_batch(8, 3, seed=5, dtype="float64", normalised=normalised)
    _, gradient = value_and_gradient(compute, labels, embeddings)
    assert gradient.dtype == "float64" and np.abs(gradient).max() > 1e-3
    # In a random direction, to which every entry of a gradient contributes.
    step = np.random.default_rng(0).normal(size=embeddings.shape) * 1e-6
    high, low = (np.sum(compute(labels, embeddings + sign * step)) for sign in (1, -1))
    assert np.sum(gradient * step) == pytest.approx((high - low) / 2, abs=1e-10, rel=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.few_by_day(60)
def test_equal_embeddings_have_finite_values_and_gradients(compute, make_batch, dtype):
    labels = np.array([0, 0, 0, 1, 1, 2, 2, 0])
    _, embeddings = make_batch(8, dtype=dtype)
    embeddings[1] = embeddings[0]
    embeddings[3] = embeddings[2]
    for rows in (embeddings, np.ones_like(embeddings), np.zeros_like(embeddings)):
        values, gradient = value_and_gradient(compute, labels, rows)
        assert np.all(np.isfinite(values)) and np.all(np.isfinite(gradient))


@pytest.mark.parametrize("labels", [[3] * 6, range(6)], ids=["one class", "all different"])
@pytest.mark.few_by_day(56)
def test_missing_kinds_of_pairs_give_no_nan(compute, make_batch, labels):
    values, gradient = value_and_gradient(compute, np.array(labels), make_batch(6)[1])
    assert np.all(np.isfinite(values)) and np.all(np.isfinite(gradient))


@few
@given(seed=st.integers(0, 10**6), size=st.integers(2, 12), classes=st.integers(1, 5))
@pytest.mark.few_by_day(28)
def test_order_of_the_batch_changes_nothing(loss_spec, compute, make_batch, seed, size, classes):
    labels, embeddings = make_batch(size, classes, seed=seed, dtype="float64")
    order = np.random.default_rng(seed).permutation(size)
    if loss_spec in VIEWS_IN_ORDER:
        # Images change places, and the views of each keep their order.
        places = np.argsort(labels[order], kind="stable")
        order[places] = np.argsort(labels, kind="stable")
    expected = compute(labels, embeddings).numpy()[order]
    np.testing.assert_allclose(compute(labels[order], embeddings[order]), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.few_by_day(28)
def test_reductions(one_loss, make_feed, make_batch):
    loss = one_loss
    labels, embeddings = make_batch()
    taken = make_feed(loss)(labels, embeddings)
    values = loss.call(labels, taken).numpy()
    weights = np.linspace(0, 2, len(labels)).astype("float32")
    config = loss.get_config()
    np.testing.assert_allclose(loss(labels, taken), np.mean(values), rtol=1e-5)
    for reduction, weighted in (
        ("sum_over_batch_size", np.mean(values * weights)),
        ("mean", np.mean(values * weights)),
        ("sum", np.sum(values * weights)),
        ("mean_with_sample_weight", np.sum(values * weights) / np.sum(weights)),
        (None, values * weights),
    ):
        own = type(loss).from_config({**config, "reduction": reduction})
        np.testing.assert_allclose(own(labels, taken, sample_weight=weights), weighted, rtol=1e-5)


def test_config_holds_every_argument_and_survives_json(loss, feed, make_batch):
    changed = {}
    for name, value in loss.get_config().items():
        if isinstance(value, float):
            changed[name] = value + 0.125
    own = type(loss)(**{**loss.get_config(), **changed, "name": "own", "reduction": "sum", "dtype": "float64"})
    parameters = inspect.signature(type(loss)).parameters
    named = {name for name, parameter in parameters.items() if parameter.kind is not parameter.VAR_KEYWORD}
    assert named | {"name", "reduction", "dtype"} <= set(own.get_config())
    written = json.loads(json.dumps(keras.saving.serialize_keras_object(own)))
    assert written["registered_name"] == f"tfdml>{type(loss).__name__}"
    read = keras.saving.deserialize_keras_object(written)
    assert type(read) is type(loss) and read.get_config() == own.get_config()
    assert {name: read.get_config()[name] for name in changed} == changed
    assert (read.name, read.reduction, read.dtype) == ("own", "sum", "float64")
    labels, embeddings = make_batch(dtype="float64")
    taken = feed(labels, embeddings)
    np.testing.assert_array_equal(read(labels, taken), own(labels, taken))


@pytest.mark.parametrize("half", ["bfloat16", pytest.param("float16", marks=pytest.mark.nightly)])
@pytest.mark.few_by_day(28)
def test_half_precision_is_computed_in_float32(one_loss, make_feed, make_batch, half):
    loss, feed = one_loss, make_feed(one_loss)
    labels, embeddings = make_batch()
    rounded = tf.cast(feed(labels, embeddings), half)
    assert feed(labels, tf.cast(embeddings, half)).dtype in ("float32", half)
    values, mean = loss.call(labels, rounded), loss(labels, rounded)
    assert values.dtype == mean.dtype == "float32"
    np.testing.assert_array_equal(values, loss.call(labels, tf.cast(rounded, "float32")))
    np.testing.assert_allclose(mean, np.mean(values), rtol=1e-6)


def test_what_it_declares(loss, feed, make_batch):
    """Hooks that models and the training command call, see `LossHooks`."""
    assert hooks_of(loss) is loss
    assert type(loss.needs_pairs) is bool and loss.batch_parts in (1, 2, 3) and loss.classes in (None, 7)
    assert loss.takes_queries == ("queries" in inspect.signature(loss.call).parameters)
    assert loss.takes_queries or loss.refuses_memory
    assert loss.callbacks(None) == [] and isinstance(layer_of(loss), LossLayer | None)
    labels, embeddings = make_batch()
    found = loss.statistics(labels, feed(labels, embeddings))
    assert all(isinstance(name, str) and np.ndim(value) == 0 for name, value in found.items())
    # Only a loss on embeddings learns from their pairs.
    assert loss.needs_pairs or layer_of(loss) is not None or isinstance(loss, Regularizer)


def test_a_loss_in_half_precision_is_refused(one_loss):
    # More than 256 classes in a batch would run together in bfloat16.
    for half in ("bfloat16", "float16", "mixed_bfloat16"):
        with pytest.raises(ValueError, match=f"float32 or float64 for losses. Received: dtype='{half}'"):
            type(one_loss)(**{**one_loss.get_config(), "dtype": half})


@pytest.mark.few_by_day(28)
def test_the_policy_of_the_network_changes_no_value(one_spec_a_loss, make_feed, make_batch):
    labels, embeddings = make_batch()

    def computed():
        loss = registry.create("loss", one_spec_a_loss)
        return loss(labels, make_feed(loss)(labels, embeddings))

    expected = computed()
    before = keras.config.dtype_policy()
    for policy in ("mixed_bfloat16", "mixed_float16"):
        keras.config.set_dtype_policy(policy)
        try:
            value = computed()
        finally:
            keras.config.set_dtype_policy(before)
        assert value.dtype == "float32"
        np.testing.assert_array_equal(value, expected)


@pytest.mark.usefixtures("improved_graphs")
@pytest.mark.nightly
@pytest.mark.parametrize("compiles", [False, pytest.param(True, marks=pytest.mark.nightly)], ids=["graph", "XLA"])
def test_compiled_functions_give_the_eager_values_and_gradients(one_spec_a_loss, compiles, make_feed, make_batch):
    loss = registry.create("loss", one_spec_a_loss)
    feed = make_feed(loss)
    labels, embeddings = make_batch(10, 3)

    def both(labels, embeddings):
        with tf.GradientTape() as tape:
            tape.watch(embeddings)
            values = loss.call(labels, feed(labels, embeddings))
        return values, tape.gradient(values, embeddings)

    eager = both(tf.constant(labels), tf.constant(embeddings))
    assert np.abs(eager[1]).max() > 1e-3
    unknown_size = [tf.TensorSpec([None], tf.int64), tf.TensorSpec([None, 5], tf.float32)]
    compiled = tf.function(both, jit_compile=True) if compiles else tf.function(both, input_signature=unknown_size)
    for got, expected in zip(compiled(tf.constant(labels), tf.constant(embeddings)), eager, strict=True):
        # Rounding of a cosine moves a gradient in proportion to its largest entries, 75 for cos_face, which has
        # cosines times 64. Small entries are sums in which these cancel.
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-6 * max(10.0, np.abs(expected).max()))


@pytest.mark.nightly
def test_plain_keras_trains_saves_and_loads_with_it(one_spec_a_loss, make_batch, tmp_path):
    keras.utils.set_random_seed(0)
    loss = registry.create("loss", one_spec_a_loss)
    labels, features = make_batch(24, 3, normalised=False)
    inputs = {
        "features": keras.Input((5,), name="features"),
        "labels": keras.Input((), dtype="int32", name="labels"),
    }
    outputs = keras.layers.UnitNormalization()(keras.layers.Dense(4)(inputs["features"]))
    layer = loss.make_layer()
    if layer is not None:
        outputs = layer(outputs, inputs["labels"])
    network = keras.Model(inputs, outputs)
    # Eagerly: graphs are compared above, and three would be traced here.
    network.compile(optimizer=keras.optimizers.Adam(0.1), loss=loss, run_eagerly=True)
    batch = {"features": features, "labels": labels.astype("int32")}
    untrained = network.evaluate(batch, labels, batch_size=24, verbose=0)
    regularization = float(sum(network.losses))
    assert untrained - regularization == pytest.approx(float(loss(labels, network(batch))), rel=1e-4)
    network.fit(batch, labels, batch_size=24, epochs=4, verbose=0)
    trained = network.evaluate(batch, labels, batch_size=24, verbose=0)
    assert trained < untrained
    network.save(tmp_path / "network.keras")
    loaded = keras.models.load_model(tmp_path / "network.keras")
    assert type(loaded.loss) is type(loss) and loaded.loss.get_config() == loss.get_config()
    assert loaded.evaluate(batch, labels, batch_size=24, verbose=0) == pytest.approx(trained, rel=1e-5)
