"""The script for machines with a GPU runs on CPUs, at tiny sizes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TINY = ["--networks=ResNet-50", "--pixels=32", "--batches=8", "--steps=2", "--images=500", "--rows=64"]


@pytest.mark.slow
@pytest.mark.nightly
def test_it_prints_one_table():
    environment = {**os.environ, "KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-m", "benchmarks.gpu", *TINY]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    heads, _, *rows = (line.strip("| ").split(" | ") for line in done.stdout.strip().splitlines())
    assert heads == ["Keras on jax", "Size", "Time", "Rate"]
    assert len(rows) == 6 and all(row[2].endswith(" ms") for row in rows)
    assert rows[0][:2] == ["training step, ResNet-50", "32 px, batch of 8"]
