"""TensorBoard's projector in a browser: the points, their pictures and their labels."""

import io

import numpy as np
import pytest
from PIL import Image

from docs.browser import chromium, open_projector, waited_for, what_is_missing
from tfdml.callbacks import Projector

pytestmark = pytest.mark.slow
COLORS = ((250, 10, 20), (20, 10, 250))


@pytest.fixture
def browser():
    """Chromium that draws with WebGL."""
    if what_is_missing():
        pytest.skip(what_is_missing())
    with chromium(webgl=True) as started:
        yield started


@pytest.mark.nightly
def test_points_pictures_and_labels_are_there(browser, tmp_path):
    """40 points of two classes, red and blue ones."""
    labels, random = np.arange(40) % 2, np.random.default_rng(0)
    embeddings = np.concatenate([np.eye(4)[labels] + 0.1 * random.normal(size=(40, 4))] * 2, axis=1)

    def thumbnail(row):
        return np.full((24, 24, 3), COLORS[row % 2], np.uint8)

    names = {"class_names": {0: "red kite", 1: "blue tit"}, "names": [f"{row}.jpg" for row in range(40)]}
    Projector(tmp_path, None, labels, thumbnail=thumbnail, learners=2, **names).write(embeddings)
    found = open_projector(browser, tmp_path)
    points = found["points"]
    assert len(points) == 40 and {point["name"] for point in points} == {"red kite", "blue tit"}
    assert {"image": "3.jpg", "label": 1, "name": "blue tit", "nearest": "right"}.items() <= points[3].items()
    assert found["dimensions"] == 8 and found["sprite"] == 7 * 24
    assert found["tensors"] == ["embeddings", "learner_0", "learner_1"]

    def both_colors():
        pixels = np.asarray(Image.open(io.BytesIO(browser.get_screenshot_as_png())).convert("RGB")).astype(int)
        counts = [np.sum(np.abs(pixels - color).sum(axis=2) < 60) for color in COLORS]
        return True if min(counts) > 300 else None

    assert waited_for(both_colors)
