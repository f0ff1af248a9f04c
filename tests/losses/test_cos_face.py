import math

import numpy as np
import pytest

from tests.of_batches import of_batches
from tfdml.losses import CosFace


def naive(labels, similarities, scale=64.0, margin=0.35):
    """The loss class by class, with the highest exponent taken out of both parts of the fraction."""
    values = []
    for label, row in zip(labels, np.asarray(similarities, np.float64), strict=True):
        exponents = [scale * (cosine - margin if number == label else cosine) for number, cosine in enumerate(row)]
        highest = max(exponents)
        total = sum(math.exp(exponent - highest) for exponent in exponents)
        values.append(highest + math.log(total) - exponents[label])
    return values


@pytest.mark.parametrize("arguments", [{}, {"scale": 2.0}, {"margin": 0.0}, {"scale": 10.0, "margin": 0.8}])
@of_batches("size, classes", [(1, 2), (7, 3), (13, 20), (30, 5)])
def test_equal_to_a_loop_over_classes(make_similarities, size, classes, dtype, tolerance, arguments):
    labels, similarities = make_similarities(size, classes, dtype=dtype)
    values = CosFace(**arguments).call(labels, similarities)
    assert values.dtype == dtype
    np.testing.assert_allclose(values, naive(labels, similarities, **arguments), rtol=tolerance, atol=tolerance)


def test_by_hand():
    values = CosFace(scale=2.0, margin=0.25).call([0, 1], np.array([[0.75, 0.5], [0.5, 0.25]]))
    np.testing.assert_allclose(values, [math.log(2), math.log(1 + math.exp(1))])


def test_a_margin_makes_it_harder(make_similarities):
    labels, similarities = make_similarities(dtype="float64")
    assert np.all(CosFace().call(labels, similarities) > CosFace(margin=0.0).call(labels, similarities))


def test_one_class_costs_nothing():
    np.testing.assert_array_equal(CosFace().call([0, 0], np.float32([[0.5], [-1.0]])), [0.0, 0.0])


def test_bad_arguments_are_told():
    with pytest.raises(ValueError, match="scale to be a number above 0; received -1.0"):
        CosFace(scale=-1.0)
