import numpy as np
import pytest
import tensorflow as tf

from tfdml.functional.distances import cosines


def naive(embeddings):
    embeddings = np.asarray(embeddings, np.float64)
    lengths = [sum(a * a for a in x) ** 0.5 for x in embeddings]
    return [
        [sum(a * b for a, b in zip(x, y, strict=True)) / (lengths[i] * lengths[j]) for j, y in enumerate(embeddings)]
        for i, x in enumerate(embeddings)
    ]


@pytest.mark.parametrize("dtype, tolerance", [("float32", 1e-5), ("float64", 1e-12)])
@pytest.mark.parametrize("size, dim", [(1, 3), (2, 1), (7, 5), (16, 33)])
def test_equal_to_a_loop_over_pairs(make_batch, size, dim, dtype, tolerance):
    _, embeddings = make_batch(size, 4, dim, dtype=dtype, normalised=False)
    found = cosines(embeddings)
    assert found.dtype == dtype
    np.testing.assert_allclose(found, naive(embeddings), rtol=tolerance, atol=tolerance)


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


def test_what_is_no_number_stays_none():
    values = cosines(np.array([[np.nan, 1.0], [1.0, 0.0], [0.0, 1.0]], np.float32)).numpy()
    assert np.isnan(values[0]).all() and np.isnan(values[:, 0]).all() and np.isfinite(values[1:, 1:]).all()
