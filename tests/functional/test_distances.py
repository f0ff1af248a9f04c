import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.losses import loops
from tfdml.functional.checks import check_pairs_input
from tfdml.functional.distances import cosines, distances, squared_distances, unit_length


def naive_squared(embeddings):
    rows = np.asarray(embeddings, np.float64)
    return np.array([[loops.distance(x, y) ** 2 for y in rows] for x in rows])


@pytest.mark.parametrize("normalised", [True, False])
@pytest.mark.parametrize("dtype, tolerance", [("float32", 1e-5), ("float64", 1e-12)])
@pytest.mark.parametrize("size, dim", [(1, 3), (2, 1), (7, 5), (16, 33)])
def test_equal_to_a_loop_over_pairs(make_batch, size, dim, dtype, tolerance, normalised):
    _, embeddings = make_batch(size, 4, dim, dtype=dtype, normalised=normalised)
    squared, plain = squared_distances(embeddings), distances(embeddings)
    assert squared.dtype == plain.dtype == dtype
    np.testing.assert_allclose(squared, naive_squared(embeddings), rtol=tolerance, atol=tolerance * dim)
    np.testing.assert_allclose(plain, np.sqrt(naive_squared(embeddings)), rtol=1e3 * tolerance, atol=1e3 * tolerance)


def test_small_distances_of_long_rows_are_not_lost():
    """Of a network that has collapsed nearly to a point: 1e-3 apart, at unit length and far from the origin."""
    random = np.random.default_rng(0)
    embeddings = (random.normal(size=32) + 1e-3 * random.normal(size=(16, 32))).astype("float32")
    for rows in (embeddings, unit_length(embeddings).numpy(), embeddings + np.float32(10.0)):
        expected = np.sqrt(naive_squared(rows))
        np.testing.assert_allclose(distances(rows), expected, rtol=1e-4)
        variable, factors = tf.Variable(rows), random.normal(size=expected.shape).astype("float32")
        with tf.GradientTape() as tape:
            value = tf.reduce_sum(distances(variable) * factors)
        exact, both = rows.astype(np.float64), factors + factors.T.astype(np.float64)
        shares = np.divide(both, expected, out=np.zeros_like(both), where=expected > 0)
        gradient = np.sum(shares[..., None] * (exact[:, None] - exact[None]), axis=1)
        np.testing.assert_allclose(tape.gradient(value, variable), gradient, rtol=1e-3, atol=1e-3)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6), size=st.integers(1, 9), scale=st.sampled_from([1e-3, 1.0, 1e3]))
def test_no_negative_no_nan_and_nothing_on_the_diagonal(seed, size, scale):
    embeddings = (scale * np.random.default_rng(seed).normal(size=(size, 4))).astype("float32")
    embeddings[size // 2 :] = embeddings[0]
    squared = squared_distances(embeddings).numpy()
    assert np.all(squared >= 0) and np.all(np.diag(squared) == 0) and np.all(np.isfinite(distances(embeddings)))
    # Matrix products sum in another order here and there.
    np.testing.assert_allclose(squared, squared.T, atol=1e-5 * scale**2)


@pytest.mark.parametrize("function, power", [(distances, 1), (squared_distances, 2)])
def test_a_constant_gallery_is_not_moved(make_batch, function, power):
    _, embeddings = make_batch(5, dim=3, dtype="float64")
    weights = np.random.default_rng(1).normal(size=(5, 5))
    variable = tf.Variable(embeddings)
    with tf.GradientTape() as tape:
        values = function(variable, constant_gallery=True)
        value = tf.reduce_sum(values * weights)
    np.testing.assert_array_equal(values, function(embeddings))
    expected = np.zeros_like(embeddings)
    for i, j in np.ndindex(5, 5):
        line = embeddings[i] - embeddings[j]
        if i != j:
            expected[i] += weights[i, j] * (2 * line if power == 2 else line / np.linalg.norm(line))
    np.testing.assert_allclose(tape.gradient(value, variable), expected, rtol=1e-9)


@pytest.mark.parametrize("dtype, tolerance", [("float32", 1e-6), ("float64", 1e-14)])
def test_unit_length(make_batch, dtype, tolerance):
    _, embeddings = make_batch(5, normalised=False, dtype=dtype)
    embeddings[3] *= 1e-9
    for i, row in enumerate(unit_length(embeddings)):
        expected = embeddings[i] / sum(value**2 for value in embeddings[i].astype("float64")) ** 0.5
        assert row.dtype == dtype
        np.testing.assert_allclose(row, expected, rtol=tolerance, atol=tolerance)


def test_rows_of_zeros_stay_zeros_without_a_gradient():
    for tiny in (0.0, 1e-20):
        variable = tf.Variable([[3.0, 4.0], [tiny, tiny], [1e-11, 0.0]])
        with tf.GradientTape() as tape:
            units = unit_length(variable)
            value = tf.reduce_sum(units)
        np.testing.assert_allclose(units, [[0.6, 0.8], [0, 0], [1, 0]], rtol=1e-6)
        gradient = tape.gradient(value, variable).numpy()
        np.testing.assert_allclose(gradient[0], np.array([4.0, -3.0]) / 125, rtol=1e-4)
        np.testing.assert_array_equal(gradient[1], [0, 0])
        assert np.all(np.isfinite(gradient[2]))
    assert np.isnan(unit_length(tf.constant([[np.nan, 1.0]]))).all()


def test_rows_that_are_equal_have_distance_zero_and_gradient_zero():
    variable = tf.Variable([[1.0, 2.0], [1.0, 2.0], [1.0, 2.0]])
    with tf.GradientTape() as tape:
        value = distances(variable)
    np.testing.assert_array_equal(value, np.zeros((3, 3)))
    np.testing.assert_array_equal(tape.gradient(value, variable), np.zeros((3, 2)))


@pytest.mark.parametrize(
    "labels, embeddings, message",
    [
        ([0, 1], [1.0, 2.0], r"embeddings of shape \[batch, dim\]. Received: shape=\(2,\)"),
        ([0, 1], [[[1.0]], [[2.0]]], r"embeddings of shape \[batch, dim\]. Received: shape=\(2, 1, 1\)"),
        (np.ones([2, 2, 2], int), [[1.0], [2.0]], r"labels of shape \[batch\].*shape=\(2, 2, 2\).*argmax"),
        (0, [[1.0], [2.0]], r"labels of shape \[batch\].*Received: shape=\(\)"),
        ([0, 1, 2], [[1.0], [2.0]], "3 labels for 2 embeddings"),
        (np.array([[0.0, 1.0], [0.5, 0.0]]), [[1.0], [2.0]], "a symmetric matrix. Received: .* Convert one-hot labels"),
    ],
)
def test_bad_shapes_are_told(labels, embeddings, message):
    with pytest.raises(ValueError, match=message):
        check_pairs_input(np.array(labels), np.array(embeddings))


@pytest.mark.parametrize("given_dtype", ["float16", "bfloat16", "float32", "float64"])
def test_half_precision_is_left_and_float64_kept(given_dtype):
    labels, embeddings = check_pairs_input([[3], [4]], tf.ones([2, 2], given_dtype))
    assert embeddings.dtype == ("float64" if given_dtype == "float64" else "float32")
    assert labels.shape == (2,)


def test_labels_are_left_as_they_are():
    given_labels = np.array([2**40, 2**40 + 1, -5])
    labels, _ = check_pairs_input(given_labels, np.ones((3, 2)))
    np.testing.assert_array_equal(labels, given_labels)


def naive_cosines(embeddings):
    rows = np.asarray(embeddings, np.float64)
    return [[loops.cosine(x, y) for y in rows] for x in rows]


@pytest.mark.parametrize("dtype, tolerance", [("float32", 1e-5), ("float64", 1e-12)])
@pytest.mark.parametrize("size, dim", [(1, 3), (2, 1), (7, 5), (16, 33)])
def test_cosines_are_equal_to_a_loop_over_pairs(make_batch, size, dim, dtype, tolerance):
    _, embeddings = make_batch(size, 4, dim, dtype=dtype, normalised=False)
    found = cosines(embeddings)
    assert found.dtype == dtype
    np.testing.assert_allclose(found, naive_cosines(embeddings), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("length", [1e-10, 1e15])
def test_rows_of_any_length(make_batch, length):
    _, embeddings = make_batch(6)
    np.testing.assert_allclose(cosines(embeddings * np.float32(length)), cosines(embeddings), rtol=1e-5, atol=1e-6)


@pytest.mark.usefixtures("improved_graphs")
@pytest.mark.parametrize("xla", [False, True])
def test_a_row_of_zeros_has_cosine_zero_and_gradient_zero(xla):
    rows = tf.constant([[0.0, 0.0], [3.0, 4.0]])

    @tf.function(jit_compile=xla)
    def both(rows):
        with tf.GradientTape() as tape:
            tape.watch(rows)
            values = cosines(rows)
        return values, tape.gradient(values, rows, output_gradients=tf.constant([[1.0, 2.0], [3.0, 4.0]]))

    values, gradient = both(rows)
    np.testing.assert_allclose(values, [[0.0, 0.0], [0.0, 1.0]], rtol=1e-6)
    np.testing.assert_array_equal(gradient[0], [0.0, 0.0])
    assert np.all(np.isfinite(gradient))


def test_cosines_with_what_is_no_number_are_none():
    values = cosines(np.array([[np.nan, 1.0], [1.0, 0.0], [0.0, 1.0]], np.float32)).numpy()
    assert np.isnan(values[0]).all() and np.isnan(values[:, 0]).all() and np.isfinite(values[1:, 1:]).all()
