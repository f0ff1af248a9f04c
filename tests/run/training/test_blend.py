"""Means of the first and the final weights, and which is chosen."""

import types

import keras
import numpy as np
import pytest

from tfdml.evaluation.scores import Scores
from tfdml.run.training.gain import SHARES, Blend, between

LABELS = np.arange(6).repeat(10)


class Experiment:
    """Tells for each share how many of ten queries of each class a model gets right."""

    def __init__(self, right):
        self.right = right
        protocol = types.SimpleNamespace(while_training=None)
        self.splits = types.SimpleNamespace(evaluation=types.SimpleNamespace(labels=LABELS), protocol=protocol)

    def embed(self, model, split):
        return float(model.get_weights()[0][0, 0])

    def scores(self, share, split, metrics):
        found = (np.arange(10) < np.array(self.right[share])[:, None]).ravel().astype(float)
        # Not a mean over queries.
        values = {"recall_at_1": found.mean(), "nmi": 1 - share}
        return Scores(values, np.arange(60), {"recall_at_1": found}, 60)


@pytest.fixture
def model():
    """Its final weights are 1, its first ones 0."""
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(3)])
    model.set_weights([np.ones((2, 3), np.float32), np.ones(3, np.float32)])
    return model


FIRST = [np.zeros((2, 3), np.float32), np.zeros(3, np.float32)]


def best(model, right, monitor="recall_at_1"):
    return Blend.best(Experiment(dict(zip(SHARES, right, strict=True))), model, FIRST, monitor)


@pytest.mark.parametrize(
    "right, share",
    [
        ([[9] * 6, [5] * 6, [4] * 6], 0.25),
        ([[5] * 6, [9] * 6, [5] * 6], 0.5),
        # Lower by the same in each class, so there is no doubt.
        ([[8] * 6, [9] * 6, [8] * 6], 0.5),
        # Lower in one class alone, and higher in another.
        ([[5] * 6, [9, 6, 5, 5, 5, 5], [8, 7, 5, 5, 4, 5]], 0.75),
        ([[7] * 6] * 3, 0.75),
    ],
    ids=["first", "middle", "surely worse", "in doubt", "equal"],
)
def test_the_largest_share_that_is_hardly_worse(model, right, share):
    found = best(model, right)
    assert found.share == share
    assert found.metrics["recall_at_1"] == pytest.approx(np.mean(right[SHARES.index(share)]) / 10)
    np.testing.assert_array_equal(model.get_weights()[0], 1.0)


def test_a_metric_of_no_queries_is_taken_as_it_is(model):
    assert best(model, [[7] * 6] * 3, monitor="nmi").share == 0.25


def test_floats_are_between_and_other_numbers_are_final():
    first = [np.float32([0, 2]), np.array([1, 2], np.uint32), np.float16([0])]
    final = [np.float32([4, 4]), np.array([3, 5], np.uint32), np.float16([1])]
    found = between(first, final, 0.25)
    np.testing.assert_array_equal(found[0], np.float32([1, 2.5]))
    np.testing.assert_array_equal(found[1], final[1])
    assert [each.dtype for each in found] == [each.dtype for each in final]
