import numpy as np
import pytest
import tensorflow as tf

from tfdml.losses import SimSiam


def cosine(one, other):
    return one @ other / np.linalg.norm(one) / np.linalg.norm(other)


@pytest.fixture
def taken():
    """Predictions and embeddings of two views of five images, and of one view of another."""
    return np.random.default_rng(0).normal(size=(11, 2, 6)), np.array([*range(5), *range(5), 9])


def test_its_mean_is_the_symmetric_loss_of_the_paper(taken):
    rows, labels = taken
    predictions, embeddings = rows[:, 0], rows[:, 1]
    values = SimSiam().call(labels, rows).numpy()
    symmetric = [
        -cosine(predictions[n], embeddings[n + 5]) / 2 - cosine(predictions[n + 5], embeddings[n]) / 2 for n in range(5)
    ]
    assert np.mean(values[:10]) == pytest.approx(np.mean(symmetric)) and values[10] == 0


def test_embeddings_are_constant_to_the_gradient(taken):
    rows, labels = taken
    variable = tf.Variable(rows)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(SimSiam().call(labels, variable))
    gradient = tf.convert_to_tensor(tape.gradient(loss, variable)).numpy()
    assert np.all(gradient[:, 1] == 0) and np.all(np.any(gradient[:10, 0] != 0, axis=1))


def test_of_several_views_it_is_the_mean_over_the_others(taken):
    rows, _ = taken
    expected = -np.mean([cosine(rows[0, 0], rows[n, 1]) for n in (1, 2)])
    assert SimSiam().call(np.zeros(3, int), rows[:3]).numpy()[0] == pytest.approx(expected)


def test_the_predictor_has_a_hidden_layer_of_a_quarter():
    layer = SimSiam().make_layer()
    rows = np.random.default_rng(0).normal(size=(8, 12)).astype("float32")
    taken = layer(rows)
    np.testing.assert_array_equal(taken[:, 1], rows)
    first, second = layer.kernels
    assert first.shape == (12, 3) and second.shape == (3, 12)
    hidden = rows @ first.numpy()
    hidden = np.maximum((hidden - hidden.mean(axis=0)) / np.sqrt(hidden.var(axis=0) + 1e-3), 0)
    np.testing.assert_allclose(taken[:, 0], hidden @ second.numpy(), rtol=1e-4, atol=1e-5)


def test_what_does_not_fit_is_told(taken):
    rows, labels = taken
    with pytest.raises(
        ValueError, match=r"Predictor gives: expected shape \[batch, 2, dim\], received shape \(11, 6\)"
    ):
        SimSiam()(labels, rows[:, 0])
    with pytest.raises(ValueError, match="hidden to be None or an integer of 1 or more; received 0"):
        SimSiam(hidden=0)
    with pytest.warns(UserWarning, match="All labels of the batch are different"):
        SimSiam()(np.arange(11), rows)
