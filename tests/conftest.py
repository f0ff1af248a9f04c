"""What several test files share."""

import numpy as np
import pytest
from PIL import Image

from tfdml import registry

# Losses with several ways to compute; every other registered loss is tested as its name gives it.
LOSS_SPECS = {
    "triplet": [f"triplet(mining={mining!r})" for mining in ("all", "semi_hard", "hard", "batch_hard")]
    + ["triplet(squared=False)"],
    "contrastive": ["contrastive", "contrastive(margin=2.5)"],
}


def pytest_generate_tests(metafunc):
    """Runs a test that takes `loss_spec` on every registered loss."""
    if "loss_spec" in metafunc.fixturenames:
        specs = [spec for name in registry.names("loss") for spec in LOSS_SPECS.get(name, [name])]
        metafunc.parametrize("loss_spec", specs)


@pytest.fixture
def make_batch():
    """Function that makes `(labels [B], embeddings [B, d])`, the same for the same arguments."""

    def make(size=12, classes=4, dim=5, seed=0, dtype="float32", normalised=True):
        random = np.random.default_rng([seed, size, classes, dim])
        embeddings = random.normal(size=(size, dim))
        if normalised:
            embeddings /= np.linalg.norm(embeddings, axis=1, keepdims=True)
        return random.integers(0, classes, size), embeddings.astype(dtype)

    return make


@pytest.fixture
def write_images():
    """Function that writes `{relative path: array or size}` as image files under a folder."""

    def write(folder, files):
        for number, (name, what) in enumerate(files.items()):
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            pixels = np.random.default_rng(number).integers(0, 256, (*what, 3)) if isinstance(what, tuple) else what
            Image.fromarray(np.asarray(pixels, np.uint8)).save(path)
        return folder

    return write
