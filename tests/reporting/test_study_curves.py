"""The learning curves of a study's rows."""

import pytest

from tfdml.reporting.pictures import model
from tfdml.run.study import runs


def test_curves_end_where_the_first_run_of_a_row_ends(monkeypatch, tmp_path):
    drawn = []
    values = {"a": {10: 0.1, 20: 0.2}, "b": {10: 0.3, 20: 0.4, 30: 0.5}}
    monkeypatch.setattr(model, "curve", lambda run_dir, metric: values[run_dir])
    monkeypatch.setattr(
        "matplotlib.axes.Axes.plot",
        lambda self, steps, heights, *style, **look: drawn.append((list(steps), list(heights))),
    )
    model.draw_curves({"row": ["a", "b"]}, tmp_path / "curves.svg")
    assert drawn[:2] == [([10, 20], [0.1, 0.2]), ([10, 20, 30], [0.3, 0.4, 0.5])]
    assert drawn[2][0] == [10, 20] and drawn[2][1] == pytest.approx([0.2, 0.3])


def test_ensembles_have_no_curve(monkeypatch, tmp_path):
    monkeypatch.setattr(model, "curve", lambda run_dir, metric: {10: 0.1} if run_dir == "a" else {})
    rows = {"single": ["a"], "ensemble": ["b"]}
    assert model.draw_curves(rows, tmp_path / "curves.svg") == ["ensemble"]
    assert runs.curve(tmp_path) == {}


def test_the_names_of_many_rows_are_in_the_picture(monkeypatch, tmp_path):
    monkeypatch.setattr(model, "curve", lambda run_dir, metric: {10: 0.1, 20: 0.2})
    saved = []
    monkeypatch.setattr("matplotlib.figure.Figure.savefig", lambda self, path: saved.append(self))
    for number in (2, 60):
        model.draw_curves({f"row {place}": ["a"] for place in range(number)}, tmp_path / "curves.svg")
        figure = saved.pop()
        figure.canvas.draw()
        names = figure.legends[0].get_window_extent()
        assert 0 <= names.y0 and names.y1 <= figure.bbox.height
