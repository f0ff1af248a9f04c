"""Groups of images of a class, more of larger classes."""

import numpy as np
import pytest

from pipelines.sampling import ProportionalPxK, PxK, WithinClusters
from tests.pipelines.sampling.in_graph import rows_and_learners

# Classes of 1, 2, 3, 4, 9 and 40 images, mixed.
SIZES = (1, 2, 3, 4, 9, 40)
LABELS = np.random.default_rng(0).permutation(np.repeat(np.arange(len(SIZES)), SIZES))
# One group each of the classes with 2, 3 and 4 images, two of that with 9, ten of that with 40.
GROUPS = 15


def batches(sampler, steps, seed=0):
    sampler.bind(LABELS)
    rows = sampler.rows(seed, np.asarray(steps)).numpy()
    return rows.reshape(len(steps), -1, sampler.per_class)


def test_groups_are_of_one_class_and_none_has_a_single_image():
    drawn = batches(ProportionalPxK(groups=5), range(30))
    assert drawn.shape == (30, 5, 4)
    classes = LABELS[drawn]
    assert np.all(classes == classes[:, :, :1])
    assert set(classes.ravel()) == {1, 2, 3, 4, 5}


def test_all_groups_come_once_before_any_comes_twice():
    for start in (0, 3, 30):
        groups = batches(ProportionalPxK(groups=5), range(start, start + 3)).reshape(GROUPS, 4)
        assert np.bincount(LABELS[groups[:, 0]], minlength=6).tolist() == [0, 1, 1, 1, 2, 10]


def test_images_of_a_round_are_different_and_another_round_divides_them_anew():
    rounds = batches(ProportionalPxK(groups=15), range(40))
    seen = set()
    for groups in rounds:
        of_largest = groups[LABELS[groups[:, 0]] == 5]
        assert len(np.unique(of_largest)) == 40
        seen |= {tuple(sorted(group)) for group in of_largest}
    assert len(seen) > 350
    # Of 9 images 8 are drawn, any of them.
    counts = np.bincount(np.concatenate([groups[LABELS[groups[:, 0]] == 4].ravel() for groups in rounds]), minlength=59)
    assert counts[LABELS == 4].min() > 25


@pytest.mark.parametrize(
    "groups, power", [(4, 1.0), (6, 1.0), (7, 1.0), (9, 1.0), (12, 1.0), (14, 1.0), (4, 0.5), (6, 0.5)]
)
def test_no_image_comes_twice_in_a_batch_in_which_a_round_ends(groups, power):
    drawn = batches(ProportionalPxK(groups=groups, power=power), range(200))
    for batch in drawn:
        # Classes of fewer than four images repeat them within their one group.
        images = batch[LABELS[batch[:, 0]] > 2].ravel()
        assert len(np.unique(images)) == len(images)
    # All images of all classes that are not alone still come.
    assert len(np.unique(drawn)) == len(LABELS) - 1


def test_small_classes_repeat_their_images_evenly():
    groups = batches(ProportionalPxK(groups=15), range(1))[0]
    for label, most in ((1, 2), (2, 2), (3, 1)):
        (group,) = groups[LABELS[groups[:, 0]] == label]
        assert np.unique(group, return_counts=True)[1].max() == most


def test_images_come_about_equally_often_and_with_pxk_classes_do():
    def spread(sampler):
        counts = np.bincount(batches(sampler, range(300)).ravel(), minlength=len(LABELS))[LABELS > 0]
        return counts.max() / counts.min()

    assert spread(PxK(classes=3)) > 15
    assert spread(ProportionalPxK(groups=5)) < 3


def test_images_alone_in_their_class_within_their_cluster_are_counted():
    labels, assignment = np.repeat(np.arange(8), 6), np.tile([0, 0, 0, 1, 1, 1], 8)
    # Of one class two images go to a cluster of their own classes, of another one.
    assignment[:6], assignment[6:12] = [0, 0, 0, 0, 1, 1], [0, 0, 0, 0, 0, 1]
    sampler = WithinClusters(ProportionalPxK(groups=4, per_class=2))
    sampler.bind(labels)
    assert sampler.assign(assignment)["left_out"] == 1
    drawn = np.unique(rows_and_learners(sampler, range(200))[0])
    np.testing.assert_array_equal(np.setdiff1d(np.arange(48), drawn), [11])


def test_too_many_groups_are_told():
    with pytest.raises(ValueError, match="needs that many groups of 4 images of a class. The training images have 15"):
        ProportionalPxK(groups=16).bind(LABELS)


@pytest.mark.parametrize(
    "power, counts", [(0.0, [0, 1, 1, 1, 1, 1]), (0.5, [0, 1, 1, 1, 1, 3]), (1.0, [0, 1, 1, 1, 2, 10])]
)
def test_a_power_is_between_balanced_and_proportional(power, counts):
    groups = batches(ProportionalPxK(groups=sum(counts), power=power), range(4))
    for drawn in groups:
        assert np.bincount(LABELS[drawn[:, 0]], minlength=6).tolist() == counts
        of_largest = drawn[LABELS[drawn[:, 0]] == 5]
        assert len(np.unique(of_largest)) == of_largest.size
