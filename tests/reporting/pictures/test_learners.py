"""Charts of learners."""

import numpy as np
import pytest
from PIL import Image

from tfdml.reporting import draw_learners, draw_negative_distances, draw_pair_cosines
from tfdml.reporting.pictures import model as learners_file


@pytest.fixture
def charts(monkeypatch):
    """The list of figures that are drawn, in place of files."""
    kept = []
    monkeypatch.setattr(learners_file, "save_chart", lambda figure, path: kept.append(figure))
    return kept


def test_a_bar_for_each_learner_as_high_as_its_recall(charts):
    alone = [{"recall_at_1": value, "queries": 9} for value in (0.2, 0.4, 0.1)]
    first = [{"recall_at_1": value, "queries": 9} for value in (0.2, 0.45, 0.5)]
    draw_learners({"alone": alone, "first": first, "correlation": 0.125}, None)
    (axes,) = charts[0].axes
    assert [bar.get_height() for bar in axes.patches] == [0.2, 0.4, 0.1]
    (line,) = axes.get_lines()
    assert line.get_xydata().tolist() == [[0.0, 0.2], [1.0, 0.45], [2.0, 0.5]]
    assert axes.get_ylabel() == "Recall@1" and "correlation 0.125" in axes.get_xlabel()


def test_distances_of_both_kinds_or_of_one(charts):
    edges, shares = [0.0, 0.5, 1.0, 1.5, 2.0], [0.0, 0.75, 0.25, 0.0]
    both = {"edges": edges, "within": shares, "between": shares[::-1], "mean_within": 0.9, "mean_between": 1.2}
    draw_negative_distances(both, None)
    draw_negative_distances({**both, "mean_between": None}, None)
    drawn = [
        {label.get_text(): patch.get_data().values.tolist() for label, patch in zip(texts, patches, strict=True)}
        for texts, patches in ((figure.axes[0].get_legend().get_texts(), figure.axes[0].patches) for figure in charts)
    ]
    one = {"within clusters, mean 0.90": shares}
    assert drawn == [one | {"between clusters, mean 1.20": shares[::-1]}, one]


def test_cosines_are_written_to_a_picture(tmp_path):
    edges, shares = np.linspace(-1, 1, 5).tolist(), [0.0, 0.5, 0.5, 0.0]
    kinds = ("negative", "positive", "self")
    cosines = {"edges": edges} | {kind: shares for kind in kinds} | {f"mean_{kind}": 0.1 for kind in kinds}
    draw_pair_cosines(cosines, tmp_path / "cosines.png")
    assert Image.open(tmp_path / "cosines.png").width > 200
