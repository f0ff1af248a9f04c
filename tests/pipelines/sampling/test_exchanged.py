"""Classes with mistakes as labels."""

import numpy as np
import pytest

from pipelines.sampling import Exchanged

LABELS = np.repeat(np.arange(20), 50)


def test_just_that_share_of_images_has_another_class_each_as_probable():
    found = Exchanged(share=0.3).first(LABELS, seed=0)
    moved = found != LABELS
    assert moved.sum() == 300 and set(found.tolist()) == set(range(20))
    # Of each class about 15 of 50, to about 15 of the 19 others: none has a partner.
    assert 5 <= np.bincount(LABELS[moved]).min() and np.bincount(LABELS[moved]).max() <= 27
    pairs = np.zeros((20, 20), int)
    np.add.at(pairs, (LABELS[moved], found[moved]), 1)
    assert pairs.max() <= 6 and not pairs.diagonal().any()


def test_the_seed_decides():
    first, again, other = (Exchanged().first(LABELS, seed=seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert np.any(first != other) and (other != LABELS).sum() == 200


def test_a_class_that_all_have_left_leaves_no_gap():
    labels = [0, 0, 0, 0, 1, 2, 2, 2]
    found = {tuple(Exchanged(share=0.5).first(labels, seed)) for seed in range(200)}
    assert all(set(each) == set(range(max(each) + 1)) for each in found)
    assert any(len(set(each)) == 2 for each in found)


@pytest.mark.parametrize("labels", [[0, 0, 0], [0, 1, 2]])
def test_images_need_classes_that_they_share(labels):
    with pytest.raises(ValueError, match="share several classes, received 3 images of [13] classes"):
        Exchanged().first(labels, seed=0)
