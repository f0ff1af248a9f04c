"""Weights of images by the sizes of their classes."""

import numpy as np
import pytest
import tensorflow as tf

from pipelines.build import class_weights, weighted
from pipelines.datasets import Split
from tests.commands import assert_one_error, run
from tests.run_helpers import train_flags

LABELS = np.repeat([0, 1, 3], [1, 4, 16])


def split_of(labels, **columns):
    images = np.array([f"{row}.jpg" for row in range(len(labels))], dtype=object)
    return Split(images, np.asarray(labels, np.int64), **columns)


@pytest.mark.parametrize("power, ratio", [(0.5, 2.0), (1.0, 4.0), (0.0, 1.0)])
def test_they_fall_with_the_size_of_a_class_and_have_a_mean_of_1(power, ratio):
    weights = class_weights(split_of(LABELS), power)
    assert weights.dtype == np.float32 and weights[2] == 0
    np.testing.assert_allclose(weights[[0, 1]] / weights[[1, 3]], ratio, rtol=1e-6)
    assert weights[LABELS].mean() == pytest.approx(1)


@pytest.mark.parametrize("kind", ["classes", "levels", "turns"])
def test_each_row_has_that_of_its_class(kind):
    targets = {
        "classes": LABELS,
        "levels": np.stack([LABELS > 0, LABELS], axis=1).astype(np.int64),
        "turns": {"label": LABELS, "learner": np.zeros_like(LABELS)},
    }
    batches = tf.data.Dataset.from_tensor_slices((np.arange(21), targets[kind])).batch(21)
    weights = class_weights(split_of(LABELS), 0.5)
    images, _, found = next(iter(weighted(batches, weights)))
    np.testing.assert_array_equal(images, np.arange(21))
    np.testing.assert_array_equal(found, weights[LABELS])


@pytest.mark.nightly
def test_a_run_trains_with_them(tmp_path):
    """With clusters there is nothing to count before they are found."""
    flags = train_flags(tmp_path / "run", "--class_weights=0.5", "--epochs=1", "--sampler=uniform(batch_size=16)")
    done = run("tfdml.train", *flags)
    assert done.returncode == 0, done.stderr
    done = run("tfdml.train", *train_flags(tmp_path / "other", "--class_weights=0.5", "--labels=clusters(k=4)"))
    assert_one_error(done, "--class_weights=0.5 needs images with a single class", "these images have none")
