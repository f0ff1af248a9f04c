"""Charts of similarities, recall and training, and their axes."""

import hashlib
import json
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from tests.evaluation.naive_pairs import example, naive_pairs
from tfdml.evaluation.queries import RetrievalTask
from tfdml.evaluation.verification.pairs import PairCounts, RetrievalPairs, thresholds_of
from tfdml.evaluation.verification.thresholds import pair_intervals
from tfdml.reporting import (
    class_thresholds,
    draw_class_thresholds,
    draw_det,
    draw_learners,
    draw_negative_distances,
    draw_pair_cosines,
    draw_recall,
    draw_rejection,
    draw_roc,
    draw_similarities,
    draw_training,
    recall_ranks,
    rejection_curve,
    roc_intervals,
)
from tfdml.reporting.pictures import model, verification
from tfdml.run.study import runs


@pytest.fixture
def charts(monkeypatch):
    """The list of figures that are drawn instead of written to files."""
    kept = []
    for file in (model, verification):
        monkeypatch.setattr(file, "save_chart", lambda figure, path: kept.append(figure))
    return kept


def test_similarities_of_both_kinds_of_pairs(charts):
    embeddings, labels = np.repeat([[1.0, 0.0], [0.0, 2.0], [0.0, -1.0]], 4, axis=0), np.repeat([0, 1, 2], 4)
    draw_similarities(embeddings, labels, None)
    (axes,) = charts[0].axes
    texts = [text.get_text() for text in axes.get_legend().get_texts()]
    assert texts[0] == "same class, mean 1.00" and texts[1].startswith("different classes, mean -0.3")
    same, different = (patch.get_data() for patch in axes.patches)
    assert same.values[-1] == pytest.approx(1) and same.values[:-1].sum() == 0
    assert different.values.sum() == pytest.approx(1) and different.values[-1] == 0 and different.values[0] > 0.2
    assert "in 100.0%" in axes.get_xlabel()
    draw_similarities(embeddings, labels, None, distance="euclidean")
    assert charts[1].axes[0].get_legend().get_texts()[0].get_text() == "same class, mean 0.00"
    assert "in 100.0%" in charts[1].axes[0].get_xlabel()
    draw_similarities(embeddings, labels, None, distance="euclidean", threshold=-0.7)
    assert list(charts[2].axes[0].get_lines()[0].get_xdata()) == [0.7, 0.7]
    assert charts[2].axes[0].get_legend().get_texts()[-1].get_text() == "threshold"


def test_errors_of_thresholds(charts):
    random = np.random.default_rng(0)
    same = np.arange(2000) % 4 == 0
    scores = random.normal(size=2000) + 2 * same
    draw_roc(PairCounts.of_scores(scores, same), None)
    draw_det(PairCounts.of_scores(scores, same), None)
    (roc,), (det,) = (figure.axes for figure in charts)
    accepts, trues = roc.get_lines()[0].get_xydata().T
    assert (accepts[0], accepts[-1], trues[-1]) == (pytest.approx(1 / 1500), 1, 1)
    for rate, true in zip(accepts[::50], trues[::50], strict=True):
        threshold = np.sort(scores[~same])[::-1][: int(rate * 1500 + 1e-6) + 1][-1]
        assert true == pytest.approx(np.mean(scores[same] > threshold), abs=1e-9) or rate == 1
    across, rejects = det.get_lines()[0].get_xydata().T
    np.testing.assert_allclose(rejects, 1 - trues[: len(across)])
    assert (roc.get_xscale(), roc.get_yscale(), det.get_xscale(), det.get_yscale()) == ("log", "linear", "log", "log")


@pytest.mark.nightly
def test_curves_have_intervals_over_classes(charts):
    embeddings, labels = example(2, rows=120, classes=12)
    pairs = RetrievalPairs.of(embeddings, RetrievalTask.of(labels))
    found = roc_intervals(pairs)
    assert (min(found), max(found), len(found)) == (pytest.approx(1 / pairs.counts.totals[1]), 1, 25)

    def true_accepts(counts, rate):
        best, (positives, negatives) = 0.0, counts.totals
        for threshold in counts.scores:
            accepted = counts.scores >= threshold
            if counts.negatives[accepted].sum() / negatives <= rate * (1 + 1e-9):
                best = max(best, counts.positives[accepted].sum() / positives)
        return best

    # The loop is slow.
    for rate in sorted(found)[11:12]:
        named = {"rate": lambda counts, _, rate=rate: true_accepts(counts, rate)}
        assert found[rate] == pytest.approx(pair_intervals(pairs, named, samples=200)["rate"])
    assert any(high - low > 0.05 for low, high in found.values())
    draw_roc(pairs.counts, None, found)
    draw_det(pairs.counts, None, found)
    roc, det = (figure.axes[0].collections[0].get_paths()[0].vertices for figure in charts)
    assert {tuple(each) for each in roc} >= {(rate, low) for rate, (low, _) in found.items()}
    assert {tuple(each) for each in det} >= {(rate, 1 - low) for rate, (low, high) in found.items() if high < 1}
    assert roc_intervals(RetrievalPairs.of(np.eye(4), RetrievalTask.of([0, 0, 0, 0]))) == {}


def test_what_is_won_by_rejecting_queries(charts, tmp_path):
    random = np.random.default_rng(0)
    nearest, right = random.integers(0, 20, 200) / 20, random.random(200) < 0.7
    rejected, shares = rejection_curve(nearest, right)
    for part, share in zip(rejected, shares, strict=True):
        (least,) = {value for value in nearest if np.isclose(np.mean(nearest < value), part)}
        assert share == pytest.approx(right[nearest >= least].mean())
    assert rejected[0] == 0 and len(rejected) == len(np.unique(nearest))
    draw_rejection(nearest, right, None, threshold=0.42)
    line, mark = charts[0].axes[0].get_lines()
    np.testing.assert_array_equal(line.get_xydata(), np.transpose([rejected, shares]))
    assert mark.get_xydata().tolist() == [[np.mean(nearest < 0.42), right[nearest >= 0.42].mean()]]
    embeddings, labels = example(2, rows=60, classes=4)
    pairs = RetrievalPairs.of(embeddings, RetrievalTask.of(labels))
    subject = SimpleNamespace(run=SimpleNamespace(path=tmp_path), pairs=pairs, distance="cosine")
    assert verification.Rejection().draw(subject, tmp_path) == [tmp_path / "rejection.png"]
    products = embeddings @ embeddings.T / np.outer(*[np.linalg.norm(embeddings, axis=1)] * 2) - 2 * np.eye(60)
    first = charts[1].axes[0].get_lines()[0].get_ydata()[0]
    assert first == pytest.approx(np.mean(labels[products.argmax(axis=1)] == labels))
    # With explicit pairs, each image is its own class, so no answer can be right.
    subject.pairs = RetrievalPairs.of(embeddings, RetrievalTask.of(np.arange(60)))
    assert verification.Rejection().draw(subject, tmp_path) == []


@pytest.mark.parametrize("distance", ["cosine", "euclidean"])
def test_thresholds_of_classes(charts, distance):
    embeddings, labels = example(2, rows=160, classes=8)
    pairs = RetrievalPairs.of(embeddings, RetrievalTask.of(labels), distance)
    found, known = class_thresholds(pairs, 0.1), thresholds_of(pairs.counts)
    scores, same, classes = naive_pairs(embeddings, labels, distance=distance)
    for label, threshold in zip(np.unique(labels), found, strict=True):
        others = scores[~same & (classes == label).any(axis=1)]
        fitting = [each for each in known if np.mean(others >= each) <= 0.1]
        assert threshold == min(fitting)
    draw_class_thresholds(found, float(np.median(found)), None, distance=distance)
    of_classes, of_all = charts[0].axes[0].get_lines()
    sign = -1 if distance == "euclidean" else 1
    assert of_classes.get_ydata().tolist() == sorted(sign * found) and set(of_all.get_ydata()) == {
        sign * np.median(found)
    }


def test_classes_have_thresholds_where_one_was_fitted(charts, tmp_path):
    embeddings, labels = example(2, rows=60, classes=4)
    about = {"pairs": RetrievalPairs.of(embeddings, RetrievalTask.of(labels)), "distance": "cosine"}
    subject, picture = SimpleNamespace(run=SimpleNamespace(path=tmp_path), **about), verification.ClassThresholds()
    assert not picture.can_be_drawn(subject)
    (tmp_path / "model.keras").write_bytes(b"a model")
    fitted = {"run_dir": "", "model": "best", "distance": "cosine", "threshold": 0.5, "far": 0.1}
    fitted["sha256"] = hashlib.sha256(b"a model").hexdigest()
    (tmp_path / "threshold.json").write_text(json.dumps({**fitted, "false_accept_rate": 0.09}))
    assert picture.can_be_drawn(subject)
    assert picture.draw(subject, tmp_path) == [tmp_path / "class_thresholds.png"] and len(charts) == 1
    (tmp_path / "threshold.json").write_text(json.dumps({**fitted, "distance": "euclidean"}))
    assert not picture.can_be_drawn(subject)


def test_recall_has_a_curve_for_each_name(charts):
    ranks = recall_ranks(20)
    assert ranks[0] == 1 and {2, 4, 8, 16, 20} <= set(ranks) and np.all(np.diff(ranks) > 0)
    draw_recall({"all learners": (ranks, ranks / 20), "learner 0": (ranks, ranks / 40)}, None)
    (axes,) = charts[0].axes
    first, second = axes.get_lines()
    np.testing.assert_array_equal(first.get_xydata(), np.stack([ranks, ranks / 20], axis=1))
    np.testing.assert_array_equal(second.get_ydata(), ranks / 40)
    assert first.get_linewidth() > second.get_linewidth() and axes.get_xscale() == "log"
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["1", "2", "4", "8", "16"]


def test_training_curves(charts):
    events = [{"event": "evaluation", "step": step, "recall_at_1": step / 100, "queries": 7} for step in (0, 20, 40)]
    events += [{"event": "train", "step": 20, "loss": 0.5, "learning_rate": 0.1, "epoch": 1}]
    assert draw_training(events, None) == 3
    found = {axes.get_title(): [line.get_xydata().tolist() for line in axes.get_lines()] for axes in charts[0].axes}
    assert found == {
        "Recall@K": [[[0, 0], [20, 0.2], [40, 0.4]]],
        "Loss": [[[20, 0.5]]],
        "Learning rate": [[[20, 0.1]]],
    }
    assert draw_training([{"event": "other", "step": 1}], None) == 0 and len(charts) == 1


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


def test_a_chart_is_written_as_png_and_as_svg_the_same_each_time(tmp_path):
    for path in (tmp_path / "a.png", str(tmp_path / "b.png")):
        draw_recall({"one": ([1, 2], [0.5, 0.75])}, path)
    assert (tmp_path / "a.png").read_bytes()[:4] == b"\x89PNG"
    svg = (tmp_path / "a.svg").read_text()
    assert svg == (tmp_path / "b.svg").read_text() and "<svg" in svg


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
