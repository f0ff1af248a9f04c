"""Fixtures for tests of methods."""

import numpy as np
import pytest


@pytest.fixture
def batch():
    rng = np.random.default_rng(0)
    return rng.normal(size=(16, 12, 12, 3)).astype(np.float32), np.repeat(np.arange(4), 4)
