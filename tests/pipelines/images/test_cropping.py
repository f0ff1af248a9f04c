"""Images cropped by their bounding boxes, in training, in evaluation and in thumbnails."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from pipelines.build import evaluation_batches, training_batches
from pipelines.datasets import load
from pipelines.images.decoding import thumbnail, thumbnails
from pipelines.preprocessor import Preprocessor
from pipelines.sampling import Uniform
from tests.pipelines.tiny_datasets import write_cub

PLAIN = Preprocessor("warp", image_size=8, mean=(0, 0, 0), std=(1, 1, 1))
# Pictures are 24 x 18, and their left half is darker.
RIGHT, LEFT, BOTH = (12, 0, 24, 18), (0, 0, 12, 18), (0, 0, 24, 18)


@pytest.fixture(scope="module")
def birds(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cub")
    write_cub(folder)
    return load("cub200(cropped=True)", data_dir=str(folder)).train


def halves(image):
    """Mean brightness of the left half and of the right."""
    return image[:, : image.shape[1] // 2].mean(), image[:, image.shape[1] // 2 :].mean()


def with_box(split, box):
    return dataclasses.replace(split, boxes=np.tile(np.array(box, np.int32), (len(split), 1)))


def evaluated(split):
    return next(evaluation_batches(split, PLAIN, batch_size=len(split)).as_numpy_iterator())


def test_evaluation_sees_the_box_alone(birds):
    left, right, both = (evaluated(with_box(birds, box)) for box in (LEFT, RIGHT, BOTH))
    for image in (*left, *right):
        one, other = halves(image)
        assert abs(one - other) < 5
    np.testing.assert_allclose(left.mean((1, 2, 3)) * 2, right.mean((1, 2, 3)), rtol=0.1)
    whole = evaluated(dataclasses.replace(birds, boxes=None))
    np.testing.assert_array_equal(both, whole)
    assert all(other > 1.5 * one for one, other in map(halves, whole))


@pytest.mark.slow
def test_each_row_has_its_own_box(birds):
    boxes = np.array([LEFT, RIGHT] * 3, np.int32)
    mixed = evaluated(dataclasses.replace(birds, boxes=boxes))
    for row, box in enumerate(boxes):
        np.testing.assert_array_equal(mixed[row], evaluated(with_box(birds, box))[row])


def test_training_sees_the_box_alone(birds):
    sampler = Uniform(6)
    sampler.bind(birds.labels)
    options = {"seed": 0, "step": tf.Variable(0, dtype=tf.int64), "steps_per_epoch": 1}
    ((images, labels),) = training_batches(with_box(birds, RIGHT), sampler, PLAIN, **options).as_numpy_iterator()
    ((plain, _),) = training_batches(with_box(birds, BOTH), sampler, PLAIN, **options).as_numpy_iterator()
    assert images.shape == (6, 8, 8, 3) and sorted(labels) == [1, 1, 1, 2, 2, 2]
    assert all(abs(one - other) < 5 for one, other in map(halves, images))
    assert all(other > 1.5 * one for one, other in map(halves, plain))


def test_thumbnails_are_cropped(birds):
    one, other = halves(thumbnail(with_box(birds, RIGHT), 0, 12)[:, 2:-2].astype(float))
    assert abs(one - other) < 5


@pytest.mark.slow
def test_many_thumbnails_are_those_of_one_after_the_other(birds):
    for split in (birds, with_box(birds, RIGHT)):
        expected = [thumbnail(split, row, 12) for row in (4, 1)]
        np.testing.assert_array_equal(thumbnails(split, [4, 1], 12), expected)
