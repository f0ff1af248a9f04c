"""Studies of stored embeddings: exchanged labels that are found, and cuts of lists."""

import sys

import numpy as np
import pytest

from benchmarks.studies import adaptive_cut, suspects
from tests.evaluation.test_suspicion import clusters


@pytest.fixture
def folder(tmp_path):
    embeddings, labels = clusters(0)
    for name, noise in (("one", 0.0), ("two", 0.5)):
        noisy = embeddings + noise * np.random.default_rng(1).normal(size=embeddings.shape)
        np.savez(tmp_path / f"{name}.npz", embeddings=noisy, labels=labels)
    return tmp_path


def rows_of(module, folder, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["study", f"--embeddings={folder}"])
    module.main()
    lines = capsys.readouterr().out.splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_exchanged_labels(folder, monkeypatch, capsys):
    rows = rows_of(suspects, folder, monkeypatch, capsys)
    assert [row[0] for row in rows] == ["one", "two", "one + two"]
    assert all(row[1:4] == ["300", "20", "15"] for row in rows)
    assert rows[0][5:] == ["1.000"] * 3 and all(float(row[6]) > 0.9 for row in rows)


def test_no_label_is_exchanged_with_its_own_class():
    labels = np.array([3, 3, 7, 9] * 25)
    given, wrong = suspects.exchanged(labels, 0.1, seed=0)
    assert wrong.sum() == 10 and ((given != labels) == wrong).all() and set(given) <= {3, 7, 9}


def test_cuts_of_lists(folder, monkeypatch, capsys):
    rows = rows_of(adaptive_cut, folder, monkeypatch, capsys)
    assert len(rows) == 8 and rows[2][:2] == ["one", "largest fall"] and rows[3][1] == "best of each list"
    scores = np.array([row[2:] for row in rows], float)
    # Classes of 15 that lie apart: the fall is behind the fourteenth.
    assert abs(scores[2, 0] - 14) < 1 and scores[2, 3] > 0.95 and (scores[:3, 3] <= scores[3, 3] + 1e-9).all()


def test_scores_are_those_of_loops():
    embeddings, labels = clusters(1, classes=5, each=6, spread=0.8)
    similarities, right, totals = adaptive_cut.lists_of(embeddings, labels, 9)
    assert (np.diff(similarities, axis=1) <= 0).all() and (totals == 5).all() and similarities.shape == (30, 10)
    lengths = np.arange(30) % 10
    expected = []
    for hits, length in zip(right, lengths, strict=True):
        found = int(hits[:length].sum())
        precision, recall = found / length if length else 0, found / 5
        f1 = 2 * precision * recall / (precision + recall) if found else 0
        expected.append([length, precision, recall, f1])
    np.testing.assert_allclose(adaptive_cut.scores_of(lengths, right, totals), np.mean(expected, axis=0))
