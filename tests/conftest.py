"""What several test files share."""

import numpy as np
import pytest
from PIL import Image

from tfdml import registry
from tfdml.losses import ProxyLoss

# Losses with several ways to compute, or that need an argument; every other one is tested as its name gives it.
LOSS_SPECS = {
    "contrastive": ["contrastive", "contrastive(margin=2.5)"],
    "proxy_nca": ["proxy_nca(classes=7)", "proxy_nca(classes=7, scale=4.0, exclude_positive=False)"],
    "triplet": [f"triplet(mining={mining!r})" for mining in ("all", "semi_hard", "hard", "batch_hard")]
    + ["triplet(squared=False)"],
}


def pytest_generate_tests(metafunc):
    """Runs a test that takes `loss_spec` on every registered loss, `pair_loss_spec` on those without proxies."""
    specs = [spec for name in registry.names("loss") for spec in LOSS_SPECS.get(name, [name])]
    if "loss_spec" in metafunc.fixturenames:
        metafunc.parametrize("loss_spec", specs)
    for fixture, proxies in (("pair_loss_spec", False), ("proxy_loss_spec", True)):
        if fixture in metafunc.fixturenames:
            is_proxy = [isinstance(registry.create("loss", spec), ProxyLoss) for spec in specs]
            chosen = [spec for spec, has in zip(specs, is_proxy, strict=True) if has == proxies]
            metafunc.parametrize(fixture, chosen)


@pytest.fixture
def make_feed():
    """Function that makes of a loss the function `(labels [B], embeddings [B, d])` to what the loss takes for them."""

    def make(loss, dim=5, seed=0):
        layer = loss.make_layer()
        if layer is None:
            return lambda labels, embeddings: embeddings
        layer.build((None, dim))
        for number, weight in enumerate(layer.weights):
            start = np.random.default_rng([seed, number]).normal(size=weight.shape)
            weight.assign(start if len(weight.shape) > 1 else 1 + 0.1 * start)
        return lambda labels, embeddings: layer.call(embeddings, labels)

    return make


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
