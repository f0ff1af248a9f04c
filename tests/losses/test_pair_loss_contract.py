"""What holds for every registered loss on embeddings alone; see the fixture `pair_loss_spec` in conftest."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.linalg import block_diag

from tfdml import registry

# Distances that a rotation changes.
ALONG_AXES = ("'lp", "'signal_to_noise'")

few = settings(max_examples=4, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture
def loss(pair_loss_spec):
    return registry.create("loss", pair_loss_spec)


def test_one_row_costs_nothing(loss, make_batch):
    labels, embeddings = make_batch(1)
    variable = tf.Variable(embeddings)
    with tf.GradientTape() as tape:
        values = loss.call(labels, variable)
    np.testing.assert_array_equal(values, [0.0])
    np.testing.assert_array_equal(tf.convert_to_tensor(tape.gradient(values, variable)), np.zeros((1, 5)))


@pytest.mark.nightly
@few
@given(seed=st.integers(0, 10**6), size=st.integers(2, 12), classes=st.integers(1, 5))
def test_names_of_classes_change_nothing(loss, make_batch, seed, size, classes):
    labels, embeddings = make_batch(size, classes, seed=seed)
    names = np.random.default_rng(seed).choice([-3, 0, 7, 2**24, 2**24 + 1, 2**40, -(2**50)], classes, replace=False)
    expected = loss(labels, embeddings)
    for renamed in (names[labels], names[labels][:, None], labels.astype("float32"), labels.astype("uint8")):
        np.testing.assert_array_equal(loss(renamed, embeddings), expected)
    np.testing.assert_array_equal(loss.call(names[labels], embeddings), loss.call(labels, embeddings))


@few
@given(seed=st.integers(0, 10**6), size=st.integers(2, 12), classes=st.integers(1, 5))
@pytest.mark.few_by_day(9)
def test_rotation_changes_nothing(loss, pair_loss_spec, make_batch, seed, size, classes):
    if any(distance in pair_loss_spec for distance in ALONG_AXES):
        pytest.skip("its distance is defined by dimensions")
    labels, embeddings = make_batch(size, classes, seed=seed, dtype="float64")
    random = np.random.default_rng(seed)
    # What is nested is turned within.
    blocks = np.split(np.arange(5), loss.nested_dims)
    rotation = block_diag(*(np.linalg.qr(random.normal(size=(len(each), len(each))))[0] for each in blocks))
    expected = loss.call(labels, embeddings)
    np.testing.assert_allclose(loss.call(labels, embeddings @ rotation), expected, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize(
    "labels_shape, embeddings_shape, message",
    [((4,), (4,), r"\[batch, dim\]"), ((4, 3), (4, 2), r"\(4, 3\).*argmax"), ((3,), (4, 2), "3 labels for 4")],
)
def test_bad_shapes_are_told(loss, labels_shape, embeddings_shape, message):
    for use in (loss, loss.call):
        with pytest.raises(ValueError, match=message):
            use(np.zeros(labels_shape), np.zeros(embeddings_shape, "float32"))


@pytest.mark.nightly
def test_neighbouring_large_labels_stay_apart_in_plain_keras(loss, make_batch):
    labels, embeddings = make_batch(24, 3)
    network = keras.Sequential([keras.Input((5,)), keras.layers.UnitNormalization()])
    # Eagerly: what Keras does with labels on their way to a loss is the same in a graph, which takes long to trace.
    network.compile(loss=loss, run_eagerly=True)
    value = network.evaluate(embeddings, labels + 2**24, batch_size=24, verbose=0)
    assert value == pytest.approx(float(loss(labels, network(embeddings))), rel=1e-4, abs=1e-7)
