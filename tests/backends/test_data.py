"""Batches without TensorFlow contain the same images and crops as with it."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from pipelines.transforms.color import BRIGHTNESS_WEIGHTS
from tests.programs import batches

pytestmark = pytest.mark.nightly

ROOT = Path(__file__).resolve().parents[2]
# Pixels are from 0 to 255.
EQUAL = 2e-3


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    """The arrays that the program makes on TensorFlow, which is this process, and on JAX."""
    file = tmp_path_factory.mktemp("batches") / "batches.npz"
    done = subprocess.run(
        [sys.executable, batches.__file__, file],
        env={**os.environ, "KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["jax", "False"]
    with np.load(file) as found:
        return {name: (array, found[name]) for name, array in batches.arrays().items()}


@pytest.mark.parametrize("name", batches.SAMPLERS)
def test_samplers_draw_the_same_rows(pairs, name):
    assert np.array_equal(*pairs[f"rows of {name}"])
    assert len(np.unique(pairs[f"rows of {name}"][0])) > 5


@pytest.mark.parametrize("transform", batches.TRANSFORMS)
def test_images_are_cropped_and_colored_in_the_same_way(pairs, transform):
    assert np.array_equal(*pairs[f"labels of {transform}"])
    expected, found = pairs[f"images of {transform}"]
    assert expected.std() > 10
    np.testing.assert_allclose(found, expected, atol=EQUAL)


def test_views_and_images_in_order_agree(pairs):
    for name in ("views", "in order"):
        np.testing.assert_allclose(*pairs[name], atol=EQUAL)
    assert np.array_equal(*pairs["numbers of views"])


def test_jpeg_files_differ_in_their_colors_and_not_in_their_brightness(pairs):
    expected, found = pairs["jpeg"]
    assert np.abs(found - expected).max() > 1
    assert np.abs((found - expected) @ np.array(BRIGHTNESS_WEIGHTS)).mean() < 0.5


def test_the_second_pass_continues(pairs):
    first, second = pairs["two passes"][1]
    assert not np.array_equal(first, second)
    assert np.array_equal(*pairs["two passes"])
