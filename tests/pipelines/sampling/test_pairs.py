"""Images with a partner each."""

import numpy as np
import pytest
import tensorflow as tf

from pipelines.sampling import Pairs

# Class 3 has a single image.
LABELS = np.random.default_rng(0).permutation([0] * 5 + [1] * 2 + [2] * 9 + [3])


def rows_of(steps, seed=0, images=4, labels=LABELS):
    sampler = Pairs(images)
    sampler.bind(labels)
    assert sampler.batch_size == 2 * images
    return sampler.rows(seed, tf.constant(steps)).numpy()


def test_half_have_a_partner_of_their_class_and_half_one_of_another():
    rows = rows_of(range(500))
    image, partner = rows[:, :4], rows[:, 4:]
    alike = LABELS[image] == LABELS[partner]
    assert np.all(alike[:, :2]) and not np.any(alike[:, 2:])
    assert np.all(image != partner)


def test_images_come_once_before_any_comes_twice():
    image = rows_of(range(16))[:, :4]
    together = [row for row in range(len(LABELS)) if LABELS[row] != 3]
    counts = np.bincount(image.ravel(), minlength=len(LABELS))
    assert set(counts[together]) == {4} and counts[LABELS == 3] == 0
    assert all(len(set(batch)) == 4 for batch in image)


def test_every_partner_comes_about_as_often():
    rows = rows_of(range(4000), images=2)
    for number, kind in ((0, True), (1, False)):
        for row in (int(np.flatnonzero(LABELS == 0)[0]), int(np.flatnonzero(LABELS == 2)[3])):
            partners = rows[rows[:, number] == row, 2 + number]
            possible = np.flatnonzero(((LABELS == LABELS[row]) == kind) & (np.arange(len(LABELS)) != row))
            assert set(partners) == set(possible)
            counts = np.bincount(partners, minlength=len(LABELS))[possible]
            expected = len(partners) / len(possible)
            assert np.sum((counts - expected) ** 2 / expected) < 3 * len(possible) + 10


def test_any_order_of_steps_gives_the_same_and_seeds_differ():
    rows = rows_of(range(30))
    np.testing.assert_array_equal(rows_of([29, 3])[0], rows[29])
    np.testing.assert_array_equal(rows_of([29, 3])[1], rows[3])
    assert np.any(rows_of(range(30), seed=1) != rows)


def test_bad_numbers():
    for images in (0, 3):
        with pytest.raises(ValueError, match=f"images to be.*; received {images}"):
            Pairs(images)
    with pytest.raises(ValueError, match="there are 16 rows and 4 classes"):
        Pairs(18).bind(LABELS)
    with pytest.raises(ValueError, match="there are 4 rows and 1 classes"):
        Pairs(2).bind([7] * 4)
    with pytest.raises(ValueError, match=r"Pairs has no tables yet: call bind\(labels\) first"):
        Pairs(2).rows(0, [0])


def test_of_few_rows_every_class_has_positive_partners_as_often():
    """Six of seven rows in each batch, which a draw gives in the order of classes."""
    labels = np.repeat([0, 1, 2], [2, 2, 3])
    sampler = Pairs(images=6)
    sampler.bind(labels)
    rows = np.asarray(sampler.rows(0, np.arange(600)))
    first = labels[rows[:, :3]].ravel()
    shares = np.bincount(first) / len(first)
    np.testing.assert_allclose(shares, np.array([2, 2, 3]) / 7, atol=0.04)
