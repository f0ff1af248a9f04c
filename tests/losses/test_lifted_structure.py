import math

import numpy as np
import pytest
import tensorflow as tf

from tests.of_batches import of_batches
from tfdml.losses import LiftedStructure

FORMS = ["smooth", "hard"]


def naive(labels, embeddings, margin, form, normalize=False):
    """`(each end's half of its pairs' costs, the paper's J)`, unordered pair by unordered pair."""
    rows = [np.asarray(row, np.float64) for row in embeddings]
    if normalize:
        rows = [row / math.sqrt(sum(row**2)) for row in rows]
    size, halves, pairs = len(labels), [0.0] * len(labels), 0

    def distance(i, j):
        return math.sqrt(sum((rows[i] - rows[j]) ** 2))

    for i in range(size):
        for j in range(i):
            if labels[i] == labels[j]:
                pairs += 1
                left = [margin - distance(i, k) for k in range(size) if labels[k] != labels[i]]
                right = [margin - distance(j, k) for k in range(size) if labels[k] != labels[j]]
                if form == "hard":
                    violation = max(max(left, default=-math.inf), max(right, default=-math.inf))
                else:
                    total = sum(math.exp(value) for value in left) + sum(math.exp(value) for value in right)
                    violation = math.log(total) if total else -math.inf
                cost = max(0.0, violation + distance(i, j)) ** 2
                halves[i] += cost / 2
                halves[j] += cost / 2
    objective = sum(halves) / (2 * pairs) if pairs else 0.0
    return [half * size / (2 * max(pairs, 1)) for half in halves], objective


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("margin", [0.0, 1.0, 3.0])
@of_batches("size, classes, dim", [(2, 2, 2), (7, 2, 3), (13, 5, 8), (20, 3, 2), (5, 1, 3), (6, 99, 3)])
def test_equal_to_a_loop_over_pairs(make_batch, size, classes, dim, dtype, tolerance, margin, form):
    for normalised in (True, False):
        labels, embeddings = make_batch(size, classes, dim, dtype=dtype, normalised=normalised)
        values = LiftedStructure(margin=margin, form=form).call(labels, embeddings)
        assert values.dtype == dtype
        expected, objective = naive(labels, embeddings, margin, form)
        np.testing.assert_allclose(values, expected, rtol=tolerance, atol=tolerance)
        assert float(np.mean(values)) == pytest.approx(objective, rel=tolerance, abs=tolerance)
        values = LiftedStructure(margin=margin, form=form, normalize=True).call(labels, embeddings)
        expected, _ = naive(labels, embeddings, margin, form, normalize=True)
        np.testing.assert_allclose(values, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("form, violation", [("hard", 1.0), ("smooth", math.log(math.exp(-1) + math.e))])
def test_by_hand(form, violation):
    # On a line at 0, 2 (one class) and 2.5 (another): to the negative it is 2.5 and 0.5 from the ends of the one pair.
    cost = (violation + 2.0) ** 2
    values = LiftedStructure(margin=1.5, form=form).call([5, 5, 9], np.array([[0.0], [2.0], [2.5]]))
    np.testing.assert_allclose(values, [3 * cost / 4, 3 * cost / 4, 0.0], rtol=1e-6)
    assert float(np.mean(values)) == pytest.approx(cost / 2)


def test_smooth_bounds_hard_from_above(make_batch):
    labels, embeddings = make_batch(20, 5)
    smooth, hard = (np.mean(LiftedStructure(form=form).call(labels, embeddings)) for form in FORMS)
    assert 0 < hard < smooth


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("labels", [[1, 1, 1, 1], [0, 1, 2, 3]], ids=["one class", "all different"])
def test_without_a_positive_or_a_negative_it_is_zero_with_zero_gradient(make_batch, labels, form):
    variable = tf.Variable(make_batch(4)[1])
    with tf.GradientTape() as tape:
        values = LiftedStructure(margin=10.0, form=form).call(np.array(labels), variable)
    np.testing.assert_array_equal(values, np.zeros(4))
    np.testing.assert_array_equal(tape.gradient(values, variable), np.zeros((4, 5)))


@pytest.mark.parametrize("form", FORMS)
def test_far_and_near_beyond_the_range_of_exponentials(form):
    rows = np.array([[0.0], [3.0], [500.0]], "float32")
    np.testing.assert_array_equal(LiftedStructure(form=form).call([0, 0, 1], rows), np.zeros(3))
    values = LiftedStructure(margin=700.0, form=form).call([0, 0, 1], rows)
    np.testing.assert_allclose(values, naive([0, 0, 1], rows, 700.0, form)[0], rtol=1e-5)


@pytest.mark.parametrize("form", FORMS)
def test_rows_of_zeros_keep_gradients_finite_at_unit_length(form):
    variable = tf.Variable(np.array([[0, 0], [1, 2], [0, 0], [3, 1]], "float32"))
    with tf.GradientTape() as tape:
        values = LiftedStructure(form=form, normalize=True).call([0, 0, 1, 1], variable)
    gradient = tape.gradient(values, variable).numpy()
    assert np.all(np.isfinite(values)) and np.all(np.isfinite(gradient)) and np.any(gradient != 0)


def test_unknown_form_names_the_known():
    with pytest.raises(ValueError, match="form to be one of 'smooth', 'hard'; received 'soft'"):
        LiftedStructure(form="soft")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("margin", [1.0, 4.0])
def test_an_end_without_a_negative_adds_nothing(form, margin):
    """Row 0 and row 1 are a pair, and only row 0 knows a negative; of rows 3 and 4 none does."""
    given = np.full((5, 5), -1, "float32")
    given[0, 1] = given[1, 0] = given[3, 4] = given[4, 3] = 1
    given[0, 2] = given[2, 0] = 0
    embeddings = tf.Variable([[0.0], [0.5], [3.0], [9.0], [10.0]])
    with tf.GradientTape() as tape:
        values = LiftedStructure(margin, form).call(tf.constant(given), embeddings)
        total = tf.reduce_sum(values)
    # The other form of one exponential is the same.
    cost = max(margin - 3.0 + 0.5, 0.0) ** 2
    assert float(total) / 5 == pytest.approx(cost / (2 * 2), rel=1e-5)
    assert np.isfinite(tape.gradient(total, embeddings)).all()
