"""What backbones are made of, on Keras' JAX backend, as on TensorFlow."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.programs import backbone_on_jax

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
# Compiling takes most of the time.
JAX = {"KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu", "JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}


@pytest.mark.nightly
def test_every_endpoint_agrees(tmp_path):
    backbone = backbone_on_jax.make()
    images = np.random.default_rng(0).normal(size=(1, 33, 64, 3)).astype(np.float32)
    weights, pictures, output = (tmp_path / name for name in ("a.weights.h5", "images.npy", "features.npz"))
    backbone.save_weights(weights)
    np.save(pictures, images)
    done = subprocess.run(
        [sys.executable, backbone_on_jax.__file__, weights, pictures, output],
        env={**os.environ, **JAX, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["jax", "False"]
    names = list(backbone.endpoints)
    with np.load(output) as found:
        for name, expected in zip(names, backbone.taps(names)(images), strict=True):
            assert np.ptp(expected) > 0.1
            np.testing.assert_allclose(found[name], expected, atol=1e-5, err_msg=name)
