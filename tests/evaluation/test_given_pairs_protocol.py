from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score

from pipelines.datasets import Split
from tfdml import registry
from tfdml.evaluation.verification import pair_list

RELATIONS = np.array([[10, 11, -1], [10, -1, 12], [13, 14, 15], [16, -1, 17], [18, 19, -1], [40, 10, 11]])


@pytest.fixture
def rows():
    labels = np.random.default_rng(0).permutation(np.arange(10, 20))
    return Split(np.array([str(label) for label in labels], dtype=object), labels, relations=RELATIONS)


@pytest.mark.parametrize("distance", ["cosine", "euclidean"])
def test_it_equals_scikit_learn_on_the_pairs_that_are_known(rows, distance, monkeypatch):
    monkeypatch.setattr(pair_list, "AT_ONCE", 2)
    embeddings = np.random.default_rng(1).normal(size=(10, 4)).astype(np.float32)
    protocol = registry.create("protocol", f"given_pairs(distance='{distance}')")
    found = protocol(embeddings, rows)
    of_label = dict(zip(rows.labels.tolist(), embeddings.astype(np.float64), strict=True))
    scores, same = [], []
    for anchor, *others in RELATIONS[:-1].tolist():
        for other, value in zip(others, (1, 0), strict=True):
            if other >= 0:
                x, y = of_label[anchor], of_label[other]
                cosine = x @ y / np.linalg.norm(x) / np.linalg.norm(y)
                scores.append(cosine if distance == "cosine" else -np.linalg.norm(x - y))
                same.append(value)
    assert found["roc_auc"] == pytest.approx(roc_auc_score(same, scores))
    assert found["pair_average_precision"] == pytest.approx(average_precision_score(same, scores))
    assert list(found) == ["roc_auc", "pair_average_precision", "equal_error_rate", "effective_rank"]


@pytest.mark.parametrize("distance", ["cosine", "euclidean"])
@pytest.mark.parametrize("seed", range(4))
def test_equal_similarities_tie(seed, distance):
    random = np.random.default_rng(seed)
    codes = np.where(random.random((60, 9)) < 0.5, -1, 1)
    # For cosine similarity, the length of equal codes does not matter.
    lengths = random.uniform(0.1, 9, (60, 1)) if distance == "cosine" else 0.3
    relations = np.append(random.integers(0, 60, (300, 2)), np.full((300, 1), -1), axis=1)
    relations[::2, 1:] = relations[::2, :0:-1]
    rows = Split(np.array([str(row) for row in range(60)], dtype=object), np.arange(60), relations=relations)
    found = registry.create("protocol", f"given_pairs(distance='{distance}')")(np.float32(lengths * codes), rows)
    same, other = relations[:, 1] >= 0, relations[:, 1:].max(axis=1)
    scores = np.sum(codes[relations[:, 0]] * codes[other], axis=1)
    assert found["roc_auc"] == pytest.approx(roc_auc_score(same, scores))
    assert found["pair_average_precision"] == pytest.approx(average_precision_score(same, scores))


def test_what_it_cannot_measure_is_told(rows):
    embeddings = np.ones((10, 4), np.float32)
    with pytest.raises(ValueError, match="cannot measure recall_at_1, nmi, which needs classes"):
        registry.create("protocol", "given_pairs(metrics=('recall_at_1', 'roc_auc', 'nmi'))")(embeddings, rows)
    with pytest.raises(ValueError, match="has no classes, which thresholds and confidence intervals"):
        registry.create("protocol", "given_pairs").pairs(embeddings, rows)
    with pytest.raises(ValueError, match="This dataset has no pairs"):
        registry.create("protocol", "given_pairs")(embeddings, SimpleNamespace(labels=rows.labels, relations=None))
