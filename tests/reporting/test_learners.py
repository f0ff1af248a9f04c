"""Charts of learners."""

import numpy as np
from PIL import Image

from tfdml.reporting import draw_learners, draw_negative_distances


def colours(path):
    return {tuple(colour) for colour in np.asarray(Image.open(path).convert("RGB")).reshape(-1, 3)}


def heights(path, colour):
    """How many pixels of a colour there are in each column."""
    pixels = np.asarray(Image.open(path).convert("RGB")).astype(int)
    return np.sum(np.abs(pixels - colour).sum(axis=2) < 6, axis=0)


def test_a_bar_for_each_learner_as_high_as_its_recall(tmp_path):
    alone = [{"recall_at_1": value} for value in (0.2, 0.4, 0.1)]
    first = [{"recall_at_1": value} for value in (0.2, 0.45, 0.5)]
    path = tmp_path / "learners.png"
    draw_learners({"alone": alone, "first": first, "correlation": 0.125}, path)
    found = heights(path, (0x9E, 0xCA, 0xE1))
    # The bars lie between the axis and the legend: columns in thirds.
    filled = np.flatnonzero(found > 0.5 * found.max())
    assert len(filled)
    bars = np.array_split(np.arange(filled.min() - 150, filled.max() + 150), 3)
    assert np.argmax([found[bar].max() for bar in bars]) == 1


def test_distances_of_both_kinds_or_of_one(tmp_path):
    edges, shares = np.linspace(0, 2, 5).tolist(), [0.0, 0.5, 0.5, 0.0]
    both = {"edges": edges, "within": shares, "between": shares[::-1], "mean_within": 0.9, "mean_between": 1.2}
    draw_negative_distances(both, tmp_path / "both.png")
    draw_negative_distances({**both, "mean_between": None}, tmp_path / "one.png")
    assert len(colours(tmp_path / "both.png")) > len(colours(tmp_path / "one.png")) > 10
