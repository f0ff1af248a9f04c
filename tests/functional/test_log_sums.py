import math

import numpy as np
import pytest
import tensorflow as tf

from tfdml.functional.pairs import log_one_plus_sum_exp, log_sum_exp, masked_softmax


def naive(mask, exponents, one):
    """Sums of exponentials, one by one; 0 where there is nothing to sum."""
    values = []
    for row, used in zip(np.asarray(exponents, np.float64), mask, strict=True):
        total = sum((math.exp(value) for value, use in zip(row, used, strict=True) if use), start=1.0 if one else 0.0)
        values.append(math.log(total) if total else 0.0)
    return values


@pytest.mark.parametrize("function, one", [(log_one_plus_sum_exp, True), (log_sum_exp, False)])
@pytest.mark.parametrize("dtype, tolerance", [("float32", 1e-5), ("float64", 1e-12)])
@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_equal_to_a_loop(function, one, dtype, tolerance, share):
    for seed, spread in enumerate((0.1, 3.0, 30.0)):
        rng = np.random.default_rng(seed)
        exponents = rng.normal(scale=spread, size=(9, 5)).astype(dtype)
        mask = rng.uniform(size=(9, 5)) < share
        values = function(tf.constant(mask), tf.constant(exponents))
        assert values.dtype == dtype
        np.testing.assert_allclose(values, naive(mask, exponents, one), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("function", [log_one_plus_sum_exp, log_sum_exp])
def test_nothing_overflows(function):
    mask = tf.constant([[True, True, False], [True, True, False], [False, True, True], [False, False, False]])
    exponents = tf.Variable([[1e4, 1e4, 0.0], [-1e4, -1e4, 1e30], [3e38, 80.0, 90.0], [1e30, -1e30, 1e4]])
    with tf.GradientTape() as tape:
        values = function(mask, exponents)
    low = 0.0 if function is log_one_plus_sum_exp else -1e4 + math.log(2)
    expected = [1e4 + math.log(2), low, 90 + math.log1p(math.exp(-10)), 0.0]
    np.testing.assert_allclose(values, expected, rtol=1e-6)
    # The share of each in the sum; where there is 1 beside it, what is far below has none.
    near, far = 1 / (1 + math.exp(-10)), 1 / (1 + math.exp(10))
    half = 0.0 if function is log_one_plus_sum_exp else 0.5
    shares = [[0.5, 0.5, 0], [half, half, 0], [0, far, near], [0, 0, 0]]
    np.testing.assert_allclose(tape.gradient(values, exponents), shares, rtol=1e-4)


def test_a_sum_far_below_one_keeps_its_digits():
    exponents = np.array([[-25.0, -30.0], [-80.0, -81.0]], np.float32)
    values = log_one_plus_sum_exp(tf.ones((2, 2), bool), tf.constant(exponents))
    np.testing.assert_allclose(values, np.exp(exponents.astype(np.float64)).sum(axis=1), rtol=1e-5)


@pytest.mark.parametrize("function", [log_one_plus_sum_exp, log_sum_exp])
def test_what_is_no_number_stays_none_in_its_own_row(function):
    exponents = tf.constant([[float("nan"), 0.0], [1.0, 0.0]])
    values = function(tf.ones((2, 2), bool), exponents).numpy()
    assert np.isnan(values[0]) and np.isfinite(values[1])


@pytest.mark.parametrize("dtype, tolerance", [("float32", 1e-6), ("float64", 1e-12)])
def test_a_masked_softmax_is_equal_to_a_loop(dtype, tolerance):
    rng = np.random.default_rng(0)
    exponents = rng.normal(scale=3.0, size=(9, 5)).astype(dtype)
    mask = rng.uniform(size=(9, 5)) < 0.5
    mask[4] = False
    shares = masked_softmax(tf.constant(mask), tf.constant(exponents))
    assert shares.dtype == dtype
    for got, row, used in zip(shares.numpy(), exponents.tolist(), mask, strict=True):
        total = sum(math.exp(value) for value, use in zip(row, used, strict=True) if use)
        expected = [math.exp(value) / total if use else 0.0 for value, use in zip(row, used, strict=True)]
        np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance)


def test_a_masked_softmax_does_not_overflow_inside_or_outside_of_the_mask():
    mask = tf.constant([[True, True, False], [True, True, False], [False, False, False]])
    exponents = tf.Variable([[1e4, 1e4, 0.0], [-1e4, -1e4, 1e30], [1e30, 0.0, -1e30]])
    with tf.GradientTape() as tape:
        shares = masked_softmax(mask, exponents)
        first = tf.reduce_sum(shares[:, 0])
    np.testing.assert_array_equal(shares, [[0.5, 0.5, 0], [0.5, 0.5, 0], [0, 0, 0]])
    np.testing.assert_allclose(tape.gradient(first, exponents), [[0.25, -0.25, 0], [0.25, -0.25, 0], [0, 0, 0]])
