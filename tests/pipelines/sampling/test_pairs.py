"""Images with a partner each, and anchors with a positive and a negative each."""

import numpy as np
import pytest
import tensorflow as tf

from pipelines.sampling import Pairs, Triplets

# Class 3 has a single image.
LABELS = np.random.default_rng(0).permutation([0] * 5 + [1] * 2 + [2] * 9 + [3])


def rows_of(steps, images=4):
    sampler = Pairs(images)
    sampler.bind(LABELS)
    assert sampler.batch_size == 2 * images
    return sampler.rows(0, tf.constant(steps)).numpy()


def test_half_have_a_partner_of_their_class_and_half_one_of_another():
    rows = rows_of(range(500))
    image, partner = rows[:, :4], rows[:, 4:]
    alike = LABELS[image] == LABELS[partner]
    assert np.all(alike[:, :2]) and not np.any(alike[:, 2:])
    assert np.all(image != partner)


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


def test_bad_numbers():
    for images in (0, 3):
        with pytest.raises(ValueError, match=f"images.*[ =]{images}"):
            Pairs(images)
    with pytest.raises(ValueError, match="Received: 16 such images and 4 classes"):
        Pairs(18).bind(LABELS)
    with pytest.raises(
        ValueError, match=r"triplets\(triplets=18\) needs that many.*Received: 16 such images and 4 classes"
    ):
        Triplets(18).bind(LABELS)
    with pytest.raises(ValueError, match="Received: 4 such images and 1 classes"):
        Pairs(2).bind([7] * 4)
    with pytest.raises(ValueError, match=r"Pairs has no tables yet. Call bind\(labels\) first"):
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


def thirds(steps, triplets=4):
    sampler = Triplets(triplets)
    sampler.bind(LABELS)
    rows = sampler.rows(0, tf.constant(steps)).numpy()
    assert rows.shape == (len(steps), sampler.batch_size) == (len(steps), 3 * triplets)
    return np.split(rows, 3, axis=1)


def test_each_anchor_has_a_positive_and_a_negative():
    anchor, positive, negative = thirds(range(400))
    assert np.all(LABELS[anchor] == LABELS[positive]) and np.all(anchor != positive)
    assert np.all(LABELS[anchor] != LABELS[negative])


def test_all_positives_with_all_negatives():
    anchor, positive, negative = (rows[:, 0] for rows in thirds(range(9000), triplets=1))
    row = int(np.flatnonzero(LABELS == 0)[0])
    pairs = {(int(p), int(n)) for a, p, n in zip(anchor, positive, negative, strict=True) if a == row}
    # Drawn apart: 4 positives with each of 12 rows of other classes.
    assert len(pairs) == 4 * 12
