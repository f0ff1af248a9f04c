"""Backbones on Keras' JAX backend, as on TensorFlow. The one with the most layers of our own stands for all."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np

from tfdml.registry import create

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "tests" / "programs" / "backbones_on_jax.py"
# Compiling takes most of the time.
JAX = {"KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu", "JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}


def test_every_endpoint_agrees(tmp_path):
    backbone = create("backbone", "googlenet")
    images = np.random.default_rng(0).normal(scale=50, size=(1, 45, 64, 3)).astype(np.float32)
    weights, pictures, output = (tmp_path / name for name in ("a.weights.h5", "images.npy", "features.npz"))
    backbone.save_weights(weights)
    np.save(pictures, images)
    done = subprocess.run(
        [sys.executable, PROGRAM, "googlenet", weights, pictures, output],
        env={**os.environ, **JAX, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["jax", "False"]
    names = list(backbone.endpoints)
    with np.load(output) as found:
        assert list(found) == names
        for name, expected in zip(names, backbone.taps(names)(images), strict=True):
            scale = np.abs(expected).max()
            np.testing.assert_allclose(found[name] / scale, expected / scale, atol=1e-5, err_msg=name)
