"""Random meta-classes of a training set."""

import numpy as np
import pytest

from tfdml.run.experiment.splits import random_meta_classes


def labels_of(classes=23, images=200, seed=0):
    """Uneven classes, each with an image at least; numbers with gaps, in no order."""
    random = np.random.default_rng(seed)
    members = np.concatenate([np.arange(classes), random.integers(0, classes, images - classes) // 2])
    return 7 * random.permutation(members) + 3


def merged(labels, meta_classes):
    """Class: the meta-classes of its images."""
    return {label: set(meta_classes[labels == label].tolist()) for label in np.unique(labels).tolist()}


@pytest.mark.parametrize("count", [1, 2, 5, 22, 23])
def test_whole_classes_are_merged_into_even_numbers_of_classes(count):
    labels = labels_of()
    found = merged(labels, random_meta_classes(labels, count, seed=4))
    assert all(len(meta_classes) == 1 for meta_classes in found.values())
    sizes = np.bincount([next(iter(meta_classes)) for meta_classes in found.values()], minlength=count)
    assert len(sizes) == count
    assert sizes.min() >= 1
    assert sizes.max() - sizes.min() <= 1


@pytest.mark.parametrize("count", [1, 2, 7, 199, 200])
def test_images_are_divided_into_even_numbers_of_images(count):
    sizes = np.bincount(random_meta_classes(labels_of(), count, seed=4, of="images"), minlength=count)
    assert len(sizes) == count
    assert sizes.min() >= 1
    assert sizes.max() - sizes.min() <= 1


def test_images_of_a_class_are_divided():
    labels = np.repeat([0, 1], 50)
    found = merged(labels, random_meta_classes(labels, 5, seed=0, of="images"))
    assert found == {0: set(range(5)), 1: set(range(5))}


@pytest.mark.parametrize("of", ["classes", "images"])
def test_a_seed_determines_it_and_another_one_changes_it(of):
    labels = labels_of()
    first = random_meta_classes(labels, 5, seed=1, of=of)
    assert first.dtype == np.int64
    np.testing.assert_array_equal(first, random_meta_classes(labels, 5, seed=1, of=of))
    assert np.any(first != random_meta_classes(labels, 5, seed=2, of=of))


def test_merging_does_not_depend_on_the_order_of_images_or_on_the_kind_of_labels():
    labels = labels_of()
    order = np.random.default_rng(1).permutation(len(labels))
    expected = random_meta_classes(labels, 5, seed=0)
    np.testing.assert_array_equal(random_meta_classes(labels[order], 5, seed=0), expected[order])
    names = np.char.zfill(labels.astype(str), 4)
    np.testing.assert_array_equal(random_meta_classes(names.tolist(), 5, seed=0), expected)


def test_all_partitions_into_even_parts_are_equally_probable():
    """Four classes fall into two pairs in three ways; 40 is 3.5 standard deviations of the count of one way."""
    drawn = [random_meta_classes(range(4), 2, seed=seed) for seed in range(600)]
    partner_of_first = [int(np.flatnonzero(part[1:] == part[0])[0]) for part in drawn]
    counts = np.bincount(partner_of_first, minlength=3)
    assert np.all(np.abs(counts - 200) < 40), counts


def test_too_many_meta_classes_are_an_error():
    labels = np.repeat([4, 8, 9], 2)
    with pytest.raises(
        ValueError, match=r"4 meta-classes need as many classes, but the labels have 3\. Use at most 3, or"
    ):
        random_meta_classes(labels, 4, seed=0)
    with pytest.raises(
        ValueError, match=r"7 meta-classes need as many images, but the labels have 6\. Use at most 6\."
    ):
        random_meta_classes(labels, 7, seed=0, of="images")
    assert sorted(random_meta_classes(labels, 6, seed=0, of="images")) == list(range(6))


@pytest.mark.parametrize("wrong", [{"count": 0}, {"count": 1.5}, {"seed": -1}, {"of": "image"}])
def test_arguments_are_checked(wrong):
    with pytest.raises((ValueError, TypeError), match=next(iter(wrong))):
        random_meta_classes(**{"labels": [0, 1], "count": 2, "seed": 0} | wrong)


def test_labels_are_a_list_of_classes():
    with pytest.raises(ValueError, match=r"Expected labels of shape \[images\], received shape \(2, 1\)\."):
        random_meta_classes([[0], [1]], 2, seed=0)
