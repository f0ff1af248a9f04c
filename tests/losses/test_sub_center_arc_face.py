import math

import numpy as np
import pytest
import tensorflow as tf

from tests.losses.test_arc_face import naive as arc_face_by_classes
from tests.of_batches import of_batches
from tfdml.losses import ArcFace, SubCenterArcFace


def naive(labels, similarities, **arguments):
    """The loss class by class, each with the largest of its cosines."""
    largest = [[max(cosines) for cosines in row] for row in np.asarray(similarities, np.float64)]
    return arc_face_by_classes(labels, largest, **arguments)


@pytest.mark.parametrize("arguments", [{}, {"scale": 2.0, "monotonic": False}, {"scale": 10.0, "margin": 2.0}])
@of_batches("size, classes, centers", [(1, 2, 2), (7, 3, 10), (13, 20, 3), (30, 5, 1)])
def test_equal_to_a_loop_over_centers(make_similarities, size, classes, centers, dtype, tolerance, arguments):
    labels, similarities = make_similarities(size, classes, centers, dtype=dtype)
    values = SubCenterArcFace(**arguments).call(labels, similarities)
    assert values.dtype == dtype
    np.testing.assert_allclose(values, naive(labels, similarities, **arguments), rtol=tolerance, atol=tolerance)


def test_by_hand():
    # The nearest center of the own class at 30 degrees, with a margin of 60; of the other one at a right angle.
    similarities = np.array([[[-1.0, math.sqrt(3) / 2], [0.0, -0.5]]])
    values = SubCenterArcFace(scale=2.0, margin=math.pi / 3).call([0], similarities)
    np.testing.assert_allclose(values, [math.log(2)])


def test_only_the_nearest_center_of_each_class_gets_a_gradient():
    variable = tf.Variable([[[0.1, 0.5, 0.4], [-0.3, -0.2, 0.6]]])
    with tf.GradientTape() as tape:
        values = SubCenterArcFace(scale=2.0).call([0], variable)
    np.testing.assert_array_equal(
        tape.gradient(values, variable).numpy() != 0, [[[False, True, False], [False, False, True]]]
    )


def test_with_one_center_it_is_arc_face(make_similarities):
    labels, similarities = make_similarities()
    expected = ArcFace().call(labels, similarities)
    np.testing.assert_array_equal(SubCenterArcFace().call(labels, similarities), expected)
    np.testing.assert_array_equal(SubCenterArcFace(per_class=1, reduction=None)(labels, similarities), expected)


def test_the_layer_has_several_centers_a_class():
    layer = SubCenterArcFace(classes=4).make_layer()
    layer.build((None, 5))
    assert (layer.per_class, layer.proxies.shape) == (3, (12, 5))


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"scale": 0}, "scale to be a number above 0; received 0"),
        ({"margin": 28.6}, "radians of 0 or more and below 3.142; received 28.6"),
    ],
)
def test_bad_arguments_are_told(arguments, message):
    with pytest.raises(ValueError, match=message):
        SubCenterArcFace(**arguments)
