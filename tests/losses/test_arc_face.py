import math

import numpy as np
import pytest
import tensorflow as tf

from tests.of_batches import of_batches
from tfdml.losses import ArcFace


def naive(labels, similarities, scale=64.0, margin=0.5, monotonic=True):
    """The loss class by class, by the angles themselves."""
    values = []
    for label, row in zip(labels, np.asarray(similarities, np.float64), strict=True):
        exponents = []
        for number, cosine in enumerate(row):
            angle = math.acos(cosine)
            if number == label and monotonic and angle + margin > math.pi:
                cosine = math.cos(angle) - margin * math.sin(margin)
            elif number == label:
                cosine = math.cos(angle + margin)
            exponents.append(scale * cosine)
        highest = max(exponents)
        total = sum(math.exp(exponent - highest) for exponent in exponents)
        values.append(highest + math.log(total) - exponents[label])
    return values


@pytest.mark.parametrize("monotonic", [True, False])
@pytest.mark.parametrize("arguments", [{}, {"scale": 2.0}, {"margin": 0.0}, {"scale": 10.0, "margin": 2.0}])
@of_batches("size, classes", [(1, 2), (7, 3), (13, 20), (30, 5)])
def test_equal_to_a_loop_over_classes(make_similarities, size, classes, dtype, tolerance, arguments, monotonic):
    labels, similarities = make_similarities(size, classes, dtype=dtype)
    arguments = {**arguments, "monotonic": monotonic}
    values = ArcFace(**arguments).call(labels, similarities)
    assert values.dtype == dtype
    np.testing.assert_allclose(values, naive(labels, similarities, **arguments), rtol=tolerance, atol=tolerance)


def test_by_hand():
    # Angles of 0 and 30 degrees with a margin of 60 degrees; the other class at 90 degrees.
    cosines = np.array([[1.0, 0.0], [math.sqrt(3) / 2, 0.0]])
    values = ArcFace(scale=2.0, margin=math.pi / 3).call([0, 0], cosines)
    np.testing.assert_allclose(values, [math.log(1 + math.exp(-1)), math.log(2)], rtol=1e-6)


def test_past_a_half_turn_it_goes_on_rising_or_follows_the_cosine():
    # The own angle from 0 to a half turn, the other class at a right angle.
    angles = np.linspace(0.01, math.pi - 0.01, 200)
    cosines = np.stack([np.cos(angles), np.zeros(200)], axis=1)
    labels = np.zeros(200, int)
    assert np.all(np.diff(ArcFace(scale=2.0).call(labels, cosines)) > 0)
    bent = np.diff(ArcFace(scale=2.0, monotonic=False).call(labels, cosines))
    rises = angles[1:] < math.pi - 0.5
    assert np.all(bent[rises] > 0) and np.all(bent[~rises][1:] < 0)


@pytest.mark.usefixtures("improved_graphs")
@pytest.mark.parametrize("monotonic", [True, False])
@pytest.mark.parametrize("compiled, dtype", [(False, "float32"), (False, "float64"), (True, "float32")])
def test_finite_gradients_where_the_sine_is_zero(compiled, dtype, monotonic):
    one = np.array(1, dtype)
    near = [1, -1, 0, np.nextafter(one, 0), np.nextafter(-one, 0), np.nextafter(one, 2), np.nextafter(-one, -2)]

    @tf.function(jit_compile=compiled)
    def both(similarities):
        with tf.GradientTape() as tape:
            tape.watch(similarities)
            values = ArcFace(monotonic=monotonic).call(np.zeros(len(near), int), similarities)
        return values, tape.gradient(values, similarities)

    for result in both(tf.constant([[value, 0.5] for value in near], dtype)):
        assert np.all(np.isfinite(result))


def test_gradients_of_embeddings_stay_moderate_near_their_proxy():
    # The slope of the cosine's inverse is steep there, that of the cosine is flat: together neither.
    proxy, other = tf.constant([1.0, 0.0, 0.0]), tf.constant([0.0, 1.0, 0.0])
    for angle in (0.1, 1e-2, 1e-3):
        row = tf.Variable([[math.cos(angle), 0.0, math.sin(angle)]])
        with tf.GradientTape() as tape:
            unit = tf.math.l2_normalize(row, axis=1)
            values = ArcFace(scale=1.0).call([0], tf.matmul(unit, tf.stack([proxy, other], axis=1)))
        length = float(tf.norm(tape.gradient(values, row)))
        assert 0.01 < length < 1.5


def test_one_class_costs_nothing():
    np.testing.assert_array_equal(ArcFace().call([0, 0], np.float32([[0.5], [-1.0]])), [0.0, 0.0])


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"scale": 0}, "scale to be a number above 0; received 0"),
        ({"margin": -0.1}, "an angle in radians of 0 or more and below 3.142; received -0.1"),
        ({"margin": 28.6}, "an angle in radians of 0 or more and below 3.142; received 28.6"),
    ],
)
def test_bad_arguments_are_told(arguments, message):
    with pytest.raises(ValueError, match=message):
        ArcFace(**arguments)
