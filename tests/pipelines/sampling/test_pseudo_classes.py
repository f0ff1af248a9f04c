import numpy as np
import pytest
import tensorflow as tf

from pipelines.sampling import Given, HardNeighbors, PseudoClasses, PxK, Views
from tests.pipelines.sampling.test_sampling import batches, bound

LABELS = np.arange(40) % 5


def test_batches_are_those_of_the_sampler_by_the_current_labels():
    sampler = bound(PseudoClasses(PxK(3, 2)), LABELS)
    np.testing.assert_array_equal(batches(sampler, range(9)), batches(bound(PxK(3, 2), LABELS), range(9)))
    # Of other sizes, and fewer.
    others = np.repeat([0, 1, 2, 3], [4, 7, 20, 9])
    sampler.assign(others)
    rows = batches(sampler, range(9))
    np.testing.assert_array_equal(rows, batches(bound(PxK(3, 2), others), range(9)))
    found = sampler.labels_of(tf.constant(rows), sampler.tables()).numpy()
    np.testing.assert_array_equal(found, others[rows])


def test_views_have_the_labels_of_their_images():
    sampler = bound(PseudoClasses(Views(4)), LABELS)
    assert sampler.several_views
    sampler.assign(LABELS[::-1])
    rows = batches(sampler, range(3))
    np.testing.assert_array_equal(sampler.labels_of(tf.constant(rows), sampler.tables()), LABELS[::-1][rows])


@pytest.mark.parametrize("sampler", [Given(4), HardNeighbors(4)])
def test_samplers_that_draw_by_other_things_are_refused(sampler):
    with pytest.raises(ValueError, match="draws by no labels that change"):
        PseudoClasses(sampler)
