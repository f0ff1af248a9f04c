import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.losses.loops import assert_is_gradient
from tfdml import registry
from tfdml.functional.statistics import divergence_loss
from tfdml.losses import Divergence


def naive(learners, margin):
    """Equation (9) of Attention-based Ensemble, pair of learners by pair, an image at a time."""
    values = []
    for image in np.asarray(learners, np.float64):
        value = 0.0
        for p in range(len(image)):
            for q in range(len(image)):
                if p != q:
                    value += max(0.0, margin - sum((image[p] - image[q]) ** 2))
        values.append(value)
    return values


def learners(size=5, count=4, dim=6, dtype="float32", normalised=True):
    values = np.random.default_rng([size, count, dim]).normal(size=(size, count, dim))
    if normalised:
        values /= np.linalg.norm(values, axis=2, keepdims=True)
    return values.astype(dtype)


@pytest.mark.parametrize("margin", [0.5, 1.0, 4.0, 30.0])
@pytest.mark.parametrize("dtype, tolerance", [("float32", 1e-4), ("float64", 1e-10)])
@pytest.mark.parametrize("size, count, dim", [(1, 2, 2), (7, 3, 3), (4, 8, 16), (3, 1, 4)])
def test_equal_to_a_loop_over_pairs_of_learners(size, count, dim, dtype, tolerance, margin):
    for normalised in (True, False):
        given = learners(size, count, dim, dtype, normalised)
        values = divergence_loss(given, margin=margin)
        assert values.dtype == dtype
        np.testing.assert_allclose(values, naive(given, margin), rtol=tolerance, atol=tolerance)


def test_a_single_learner_and_distant_ones_cost_nothing():
    for rows in (np.ones((3, 1, 4)), np.arange(3)[None, :, None] * np.ones((2, 3, 4))):
        variable = tf.Variable(rows)
        with tf.GradientTape() as tape:
            values = divergence_loss(variable)
        np.testing.assert_array_equal(values, np.zeros(len(rows)))
        np.testing.assert_array_equal(tape.gradient(values, variable), np.zeros_like(rows))


def test_gradient_agrees_with_differences():
    given = learners(2, 3, 2, "float64")
    variable = tf.Variable(given)
    with tf.GradientTape() as tape:
        values = divergence_loss(variable, margin=3.0)
    gradient = tape.gradient(values, variable).numpy()
    assert np.abs(gradient).max() > 1e-2
    assert_is_gradient(gradient, lambda rows: divergence_loss(rows, margin=3.0), given)


def test_equal_learners_have_a_finite_gradient():
    variable = tf.Variable(np.ones((2, 3, 4), np.float32))
    with tf.GradientTape() as tape:
        values = divergence_loss(variable)
    np.testing.assert_allclose(values, [6.0, 6.0], rtol=1e-5)
    assert np.all(np.isfinite(tape.gradient(values, variable)))


@pytest.mark.usefixtures("improved_graphs")
def test_compiled_functions_give_the_eager_values():
    given = learners()
    unknown = [tf.TensorSpec([None, 4, 6])]
    for compiled in (
        tf.function(divergence_loss, input_signature=unknown),
        tf.function(divergence_loss, jit_compile=True),
    ):
        np.testing.assert_allclose(compiled(tf.constant(given)), divergence_loss(given), rtol=1e-5)


@pytest.mark.parametrize("half", ["bfloat16", "float16"])
def test_half_precision_is_computed_in_float32(half):
    rounded = tf.cast(learners(), half)
    expected = divergence_loss(tf.cast(rounded, "float32"))
    assert expected.dtype == "float32"
    for values in (divergence_loss(rounded), Divergence(reduction=None)(np.arange(5), rounded)):
        assert values.dtype == "float32"
        np.testing.assert_array_equal(values, expected)


def test_what_is_no_number_stays_none():
    given = learners()
    given[2, 1, 0] = np.nan
    assert np.isnan(divergence_loss(given)).tolist() == [False, False, True, False, False]


def test_a_class_passes_its_arguments_on_and_has_the_defaults_of_the_function():
    given = learners()
    for arguments in ({}, {"margin": 2.5}):
        values = Divergence(reduction=None, **arguments)(np.arange(5), given)
        np.testing.assert_allclose(values, divergence_loss(given, **arguments), rtol=1e-6)
    np.testing.assert_allclose(divergence_loss(given), naive(given, 1.0), rtol=1e-4)
    mean = np.mean(naive(given, 1.0))
    assert float(Divergence()(np.arange(5)[:, None], given)) == pytest.approx(mean, rel=1e-5)


def test_config_survives_json():
    own = Divergence(margin=0.25, reduction="sum", name="own", dtype="float64")
    written = json.loads(json.dumps(keras.saving.serialize_keras_object(own)))
    assert written["registered_name"] == "tfdml>Divergence"
    read = keras.saving.deserialize_keras_object(written)
    assert type(read) is Divergence and read.get_config() == own.get_config() and read.margin == 0.25


def test_it_is_no_metric_loss():
    assert "divergence" not in registry.names("loss")


def test_bad_shapes_are_told():
    for use in (divergence_loss, lambda rows: Divergence()(np.zeros(4), rows)):
        with pytest.raises(ValueError, match=r"\[batch, learners, dim\]. Received: shape=\(4, 3\)"):
            use(np.zeros((4, 3), np.float32))
