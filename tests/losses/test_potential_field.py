"""The potential field equals its loop, its forces decay, and its layer trains embeddings and proxies together."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.losses import loops
from tests.losses.loops import assert_is_gradient, value_and_gradient
from tests.methods.models import small_model
from tfdml import losses


def batch_of(size, classes, per_class, dtype="float64", seed=0):
    random = np.random.default_rng(seed)
    labels, rows = random.integers(0, classes, size), random.normal(size=(size, 4))
    # The first pair is near, so that both parts of the potentials are compared.
    rows[1] = rows[0] + 0.01
    cosines = random.uniform(-1, 1, (size, classes * per_class))
    return labels, np.concatenate([rows, cosines], axis=1)[:, None].astype(dtype)


@pytest.mark.parametrize("dtype, tolerance", [("float32", 1e-4), ("float64", 1e-10)])
@pytest.mark.parametrize("arguments", [{}, {"alpha": 1.0}, {"alpha": 2.5, "delta": 1.0}, {"delta": 2.0}])
@pytest.mark.parametrize("size, classes, per_class", [(1, 2, 1), (7, 3, 2), (12, 4, 1), (5, 1, 3)])
@pytest.mark.few_by_day(12)
def test_as_a_loop(size, classes, per_class, arguments, dtype, tolerance):
    size = max(size, 2)
    labels, taken = batch_of(size, classes, per_class, dtype)
    loss = losses.PotentialField(classes=classes, per_class=per_class, **arguments)
    values = loss.call(labels, taken)
    assert values.dtype == dtype
    expected = loops.potential_field(labels, taken, classes, per_class, **arguments)
    np.testing.assert_allclose(values, expected, rtol=tolerance, atol=tolerance * np.abs(expected).max())


def test_gradient_of_every_entry():
    labels, taken = batch_of(6, 3, 2)
    loss = losses.PotentialField(classes=3, per_class=2, delta=0.5)
    _, gradient = value_and_gradient(loss, labels, taken)
    taken = taken[:, 0]

    def summed(rows):
        return loops.potential_field(labels, rows[:, None], 3, 2, delta=0.5)

    assert_is_gradient(gradient[:, 0], summed, taken, abs=1e-4, rel=1e-5)


def force(degrees, same, delta=0.2):
    """The length of the gradient of one image's potential by the other image's place, without proxies nearby."""
    angle = np.radians(degrees)
    rows = np.array([[1.0, 0.0], [np.cos(angle), np.sin(angle)]])
    taken = np.concatenate([rows, np.full((2, 2), -1.0)], axis=1)[:, None]
    loss = losses.PotentialField(classes=2, per_class=1, delta=delta)
    _, gradient = value_and_gradient(loss, [0, 0 if same else 1], taken)
    return np.linalg.norm(gradient[1, 0, :2])


def test_forces_decay_with_distance_and_end_nearby():
    for same in (True, False):
        forces = [force(degrees, same) for degrees in (12, 20, 40, 80, 160)]
        assert all(near > 2 * far for near, far in zip(forces, forces[1:], strict=False))
    # Nearer than delta, images of one class no longer attract each other, and others repel less and less.
    assert force(11, True) == 0.0
    assert force(1, False) == pytest.approx(force(2, False) / 2, rel=0.01) and force(2, False) < force(11, False)
    assert force(0, False) == 0.0


def test_other_input_is_told():
    loss = losses.PotentialField(classes=3, per_class=2)
    with pytest.raises(ValueError, match=r"\[batch, 1, dim \+ classes \* per_class\]. Received: shape=\(4, 6\)"):
        loss(np.array([0, 0, 1, 1]), np.ones((4, 6), "float32"))
    with pytest.raises(ValueError, match="labels must be from 0 to 2. Received: 3"):
        loss(np.array([0, 0, 1, 3]), np.ones((4, 1, 9), "float32"))
    assert np.isnan(loss.call(np.array([0, 0, 1, 3]), np.eye(4, 9, dtype="float32")[:, None])[3])
    with pytest.raises(ValueError, match="needs the number of training classes"):
        losses.PotentialField().make_layer()


@pytest.mark.slow
def test_a_model_trains_embeddings_and_proxies(batch, tmp_path):
    images, labels = np.clip(batch[0], -2.0, 2.0), batch[1]
    model = small_model()
    model.compile(keras.optimizers.Adam(0.01), "potential_field(classes=4, per_class=2)", run_eagerly=True)
    model(images[:2])
    (proxies,) = model.loss_layers.variables
    before = proxies.numpy()
    history = model.fit(images, labels, batch_size=16, epochs=4, verbose=0).history["loss"]
    assert history[-1] < history[0] and np.abs(proxies.numpy() - before).max() > 0.01
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded.loss_layers.variables[0], proxies)
    value = model.evaluate(images, labels, batch_size=16, verbose=0)[0]
    assert loaded.evaluate(images, labels, batch_size=16, verbose=0)[0] == pytest.approx(value, rel=1e-5)


def test_without_gradient_it_is_no_tensor_of_nan():
    loss = losses.PotentialField(classes=2, per_class=1)
    rows = tf.Variable(np.zeros((3, 1, 6), "float32"))
    with tf.GradientTape() as tape:
        values = loss.call(np.array([0, 0, 1]), rows)
    assert np.all(np.isfinite(values)) and np.all(np.isfinite(tape.gradient(values, rows)))
