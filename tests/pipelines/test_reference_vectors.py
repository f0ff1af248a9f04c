"""Batches with reference vectors, of the same images and of others."""

import numpy as np
import pytest
import tensorflow as tf

from pipelines.build import training_batches, with_anchors
from pipelines.dataset import Split
from pipelines.sampling import PxK, Uniform, Views
from pipelines.stored import StoredVectors

COUNT = 12


def split_of(first):
    """Images of a single gray value each, from `first` on."""
    images = np.empty(COUNT, object)
    images[:] = [tf.io.encode_png(np.full((2, 2, 3), first + number, np.uint8)).numpy() for number in range(COUNT)]
    return Split(images, np.arange(COUNT) // 3)


def batches_of(split, sampler, vectors=None, **more):
    def prepare(contents, seed):
        return tf.cast(tf.ensure_shape(tf.io.decode_png(contents), [2, 2, 3]), tf.float32)

    sampler.bind(split.labels)
    step = tf.Variable(0, dtype=tf.int64)
    return training_batches(split, sampler, prepare, seed=0, step=step, steps_per_epoch=3, vectors=vectors, **more)


def gray(images):
    return images[:, 0, 0, 0].numpy().astype(int)


@pytest.mark.parametrize("sampler", [PxK(2, 2), Views(3)], ids=["classes", "views"])
def test_each_image_has_its_own_vector(sampler):
    vectors = np.random.default_rng(0).normal(size=(COUNT, 5)).astype(np.float32)
    plain = batches_of(split_of(0), sampler)
    batches = batches_of(split_of(0), sampler, {"teacher": StoredVectors([vectors])})
    assert len(batches) == 3
    for (images, targets), (same, labels) in zip(batches, plain, strict=True):
        np.testing.assert_array_equal(targets["teacher"], vectors[gray(images)])
        np.testing.assert_array_equal(images, same)
        np.testing.assert_array_equal(targets["label"], labels)


def test_stored_features_have_vectors_too():
    features, vectors = (np.random.default_rng(seed).normal(size=(COUNT, 2)).astype(np.float32) for seed in (0, 1))
    split = Split(StoredVectors([features]), np.arange(COUNT) // 3)
    for rows, targets in batches_of(split, PxK(2, 2), {"teacher": StoredVectors([vectors])}):
        for row, vector in zip(rows.numpy(), targets["teacher"].numpy(), strict=True):
            np.testing.assert_array_equal(vectors[np.flatnonzero((features == row).all(axis=1))[0]], vector)


@pytest.mark.parametrize("weighted", [False, True])
def test_other_images_come_with_their_vectors(weighted):
    vectors = np.random.default_rng(0).normal(size=(COUNT, 5)).astype(np.float32)
    weights = np.arange(1.0, 5.0, dtype=np.float32) if weighted else None
    batches = batches_of(split_of(0), PxK(2, 2), weights=weights)
    others = batches_of(split_of(100), Uniform(4), {"initial": StoredVectors([vectors])})
    both = with_anchors(batches, others)
    assert len(both) == 3
    for (images, targets, *more), (same, labels, *_) in zip(both, batches, strict=True):
        assert targets.keys() == {"label", "initial", "anchor"} and len(more) == weighted
        np.testing.assert_array_equal(images, same)
        np.testing.assert_array_equal(targets["label"], labels)
        np.testing.assert_array_equal(targets["initial"], vectors[gray(targets["anchor"]) - 100])
        if weighted:
            np.testing.assert_array_equal(more[0], weights[labels])
