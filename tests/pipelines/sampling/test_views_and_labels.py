"""Views of images, and labels that are replaced: by clusters, or by mistakes."""

import numpy as np
import pytest
import tensorflow as tf

from pipelines.sampling import Exchanged, Given, HardNeighbors, PseudoClasses, PxK, Views
from tests.pipelines.sampling.test_sampling import batches, bound


def test_the_second_half_is_the_first():
    drawn = batches(bound(Views(4), np.arange(30)), range(20))
    np.testing.assert_array_equal(drawn[:, :4], drawn[:, 4:])


@pytest.mark.parametrize("images, message", [(31, "needs that many training images. Received: 30"), (1, "2 or more")])
def test_too_few_images_are_told(images, message):
    with pytest.raises(ValueError, match=message):
        bound(Views(images), np.arange(30))


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
    with pytest.raises(ValueError, match="does not work with labels that change"):
        PseudoClasses(sampler)


EXCHANGED = np.repeat(np.arange(20), 50)


def test_just_that_share_of_images_has_another_class_each_as_probable():
    found = Exchanged(share=0.3).first(EXCHANGED, seed=0)
    moved = found != EXCHANGED
    assert moved.sum() == 300 and set(found.tolist()) == set(range(20))
    # Of each class about 15 of 50, to about 15 of the 19 others: none has a partner.
    assert 5 <= np.bincount(EXCHANGED[moved]).min() and np.bincount(EXCHANGED[moved]).max() <= 27
    pairs = np.zeros((20, 20), int)
    np.add.at(pairs, (EXCHANGED[moved], found[moved]), 1)
    assert pairs.max() <= 6 and not pairs.diagonal().any()


def test_the_seed_decides():
    first, again, other = (Exchanged().first(EXCHANGED, seed=seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert np.any(first != other) and (other != EXCHANGED).sum() == 200


def test_a_class_that_all_have_left_leaves_no_gap():
    labels = [0, 0, 0, 0, 1, 2, 2, 2]
    found = {tuple(Exchanged(share=0.5).first(labels, seed)) for seed in range(200)}
    assert all(set(each) == set(range(max(each) + 1)) for each in found)
    assert any(len(set(each)) == 2 for each in found)


@pytest.mark.parametrize("labels", [[0, 0, 0], [0, 1, 2]])
def test_images_need_classes_that_they_share(labels):
    with pytest.raises(ValueError, match="two classes with several images. Received: 3 images of [13] classes"):
        Exchanged().first(labels, seed=0)
