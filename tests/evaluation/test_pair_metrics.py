"""Pair metrics, compared with scikit-learn and with loops over all pairs."""

import numpy as np
import pytest
import scipy.optimize
import sklearn.metrics

from tests.evaluation.naive_pairs import example, naive_pairs
from tfdml.evaluation import evaluate
from tfdml.evaluation.metrics import metric_of
from tfdml.evaluation.protocols import protocol_of
from tfdml.evaluation.queries import RetrievalTask
from tfdml.evaluation.verification import pairs as pairs_module
from tfdml.evaluation.verification.pairs import RetrievalPairs

RATES = (0.1, 0.01, 0.001)
NAMES = (
    "roc_auc",
    "equal_error_rate",
    "pair_accuracy",
    "pair_accuracy_threshold",
    "pair_average_precision",
    "d_prime",
    *(f"tar_at_far_{rate}" for rate in RATES),
)


def equal_error_rate(scores, same):
    falses, trues, _ = sklearn.metrics.roc_curve(same, scores)
    return scipy.optimize.brentq(lambda rate: 1 - rate - np.interp(rate, falses, trues), 0, 1)


def true_rate(scores, same, rate):
    accepts = [(np.mean(scores[~same] >= threshold), np.mean(scores[same] >= threshold)) for threshold in scores]
    return max([trues for falses, trues in accepts if falses <= rate], default=0.0)


def expected(scores, same):
    accuracy = max(np.mean((scores >= threshold) == same) for threshold in [*scores, np.inf])
    means, variances = ([kind(scores[each]) for each in (same, ~same)] for kind in (np.mean, np.var))
    return {
        "roc_auc": sklearn.metrics.roc_auc_score(same, scores),
        "equal_error_rate": equal_error_rate(scores, same),
        "pair_accuracy": accuracy,
        "pair_average_precision": sklearn.metrics.average_precision_score(same, scores),
        "d_prime": (means[0] - means[1]) / np.sqrt((variances[0] + variances[1]) / 2),
        **{f"tar_at_far_{rate}": true_rate(scores, same, rate) for rate in RATES},
    }


def assert_expected(found, scores, same):
    wanted = expected(scores, same)
    assert {name: found[name] for name in wanted} == pytest.approx(wanted, abs=2e-6)
    assert np.mean((scores >= found["pair_accuracy_threshold"]) == same) == pytest.approx(wanted["pair_accuracy"])


@pytest.mark.parametrize("distance", ["cosine", "euclidean"])
@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.few_by_day(1)
def test_every_image_with_all_others(seed, distance, monkeypatch):
    # Several blocks of queries and of gallery images.
    monkeypatch.setattr(pairs_module, "ROWS", 17)
    monkeypatch.setattr(pairs_module, "COLUMNS", 41)
    embeddings, labels = example(seed)
    found = evaluate(embeddings, labels, NAMES, distance=distance)
    scores, same, _ = naive_pairs(embeddings, labels, distance=distance)
    pairs = RetrievalPairs.of(embeddings, RetrievalTask.of(labels), distance)
    assert pairs.counts.totals == (same.sum(), (~same).sum())
    assert_expected(found, scores, same)


@pytest.mark.parametrize("overlap", [False, True])
def test_queries_in_a_gallery_and_what_is_apart(overlap, monkeypatch):
    monkeypatch.setattr(pairs_module, "ROWS", 13)
    monkeypatch.setattr(pairs_module, "COLUMNS", 29)
    embeddings, labels = example(2)
    random = np.random.default_rng(3)
    queries, cameras = random.random(len(labels)) < 0.4, random.integers(0, 3, len(labels))
    gallery = (random.random(len(labels)) < 0.6) if overlap else ~queries
    marks = {"queries": queries, "gallery": gallery, "apart": [cameras]}
    scores, same, _ = naive_pairs(embeddings, labels, **marks)
    assert RetrievalPairs.of(embeddings, RetrievalTask.of(labels, **marks)).counts.totals == (same.sum(), (~same).sum())
    assert_expected(evaluate(embeddings, labels, NAMES, **marks), scores, same)


def test_pooled_queries():
    embeddings, labels = example(4)
    rows = type("Rows", (), {"labels": labels, "cameras": labels % 2, "groups": None})
    rows.is_query = np.arange(len(labels)) % 2 == 0
    rows.is_gallery, rows.cameras = ~rows.is_query, np.where(rows.is_query, 0, 1)
    protocol = protocol_of("query_gallery(metrics='roc_auc', pooling='mean')")
    unit = embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True)
    kinds = np.unique(labels[rows.is_query])
    pooled = np.stack([unit[rows.is_query & (labels == kind)].mean(axis=0) for kind in kinds])
    pooled /= np.linalg.norm(pooled, axis=1, keepdims=True)
    scores, same = pooled @ unit[rows.is_gallery].T, kinds[:, None] == labels[rows.is_gallery]
    found = protocol(embeddings, rows)["roc_auc"]
    assert found == pytest.approx(sklearn.metrics.roc_auc_score(same.ravel(), scores.ravel()), abs=1e-6)


def test_equal_and_collapsed_embeddings_tie():
    labels = np.repeat(np.arange(5), 4)
    found = evaluate(np.ones([20, 3]) + 1e-9 * np.arange(20)[:, None], labels, NAMES[:-1])
    assert found["roc_auc"] == found["equal_error_rate"] == 0.5
    assert found["tar_at_far_0.1"] == 0 and found["d_prime"] is None
    assert found["pair_accuracy"] == pytest.approx(160 / 190)
    # The best threshold accepts none.
    assert found["pair_accuracy_threshold"] > 1


@pytest.mark.parametrize("scale", [1.0, 0.3])
@pytest.mark.parametrize("seed, dim, kind", [(7, 22, "codes"), (14, 5, "counts"), (22, 18, "counts")])
def test_equal_distances_tie(seed, dim, kind, scale):
    random = np.random.default_rng(seed)
    labels = random.integers(0, 8, 60)
    signs = np.where(random.random((60, dim)) < 0.5, -1, 1)
    embeddings = np.float32(scale) * (signs if kind == "codes" else random.integers(0, 3, (60, dim))).astype(np.float32)
    scores, same, _ = naive_pairs(embeddings, labels, distance="euclidean")
    wanted = expected(scores.round(5), same)
    found = evaluate(embeddings, labels, NAMES, distance="euclidean")
    assert {name: found[name] for name in wanted} == pytest.approx(wanted, abs=5e-6)


@pytest.mark.parametrize("middle, ties", [(500_000.0, True), (500_000.5, False)])
def test_two_similarities_tie_if_they_are_rounded_alike(middle, ties):
    """As docs/verification.md says: those that differ by 2e-7 do not tie if they lie on both sides of a border."""
    first, second = middle / 2**20 + np.array([-1e-7, 1e-7])
    rows = [[1, 0, 0], [first, np.sqrt(1 - first**2), 0], [second, 0, np.sqrt(1 - second**2)]]
    scores = RetrievalPairs.of(np.array(rows, np.float64), RetrievalTask.of(np.array([0, 0, 1]))).counts.scores
    # The third pair consists of the last two rows.
    assert len(scores) == (2 if ties else 3)


@pytest.mark.parametrize("length", [1e2, 1e4, 1e7])
def test_an_outlier_makes_no_other_distances_equal(length):
    embeddings, labels = example(3)
    embeddings[5] *= length
    found = evaluate(embeddings, labels, ("roc_auc", "pair_accuracy"), distance="euclidean")
    scores, same, _ = naive_pairs(embeddings, labels, distance="euclidean")
    assert found["roc_auc"] == pytest.approx(sklearn.metrics.roc_auc_score(same, scores), abs=1e-4)
    pairs = RetrievalPairs.of(embeddings, RetrievalTask.of(labels), "euclidean")
    counts, thresholds = pairs.counts, np.linspace(-3, -1, 5)
    accepted = counts.accepted[0][np.searchsorted(counts.scores, thresholds)]
    assert accepted.tolist() == [np.sum(scores[same] >= threshold) for threshold in thresholds]
    assert (pairs.scores_of(pairs.bins_of(counts.scores)) == counts.scores).all()


def test_names_of_rates():
    for spec, name in {
        "tar_at_far_0.001": "tar_at_far_0.001",
        "tar_at_far_1e-5": "tar_at_far_1e-5",
        "tar_at_far(rate=0.1)": "tar_at_far_0.1",
        "tar_at_far_1e-06": "tar_at_far_1e-6",
    }.items():
        assert metric_of(spec).name == metric_of(name).name == name
    assert [metric_of(name).negatives_needed for name in ("tar_at_far_0.1", "tar_at_far_1e-6")] == [10, 1_000_000]


@pytest.mark.filterwarnings("ignore:All 6 labels are equal")
def test_too_few_pairs_are_told(caplog):
    labels = np.repeat(np.arange(3), 2)
    random = np.random.default_rng(0).normal(size=(6, 4))
    assert evaluate(random, labels, ("tar_at_far_0.001", "roc_auc"))["tar_at_far_0.001"] is None
    assert "tar_at_far_0.001 needs" in caplog.text and "1,000 of different classes. Found 3 and 12" in caplog.text
    for others in (np.arange(6), [0] * 6):
        assert evaluate(random, others, "roc_auc") == {"roc_auc": None}


def opis(scores, same, classes, low, high, steps):
    """A literal implementation: variance over classes of the harmonic mean of sensitivity and specificity."""
    ordered = np.sort(scores[~same])[::-1]
    strict, lenient = (ordered[int(rate * len(ordered) + 1e-9) - 1] for rate in (low, high))
    near, far = np.sqrt(2 - 2 * strict), np.sqrt(2 - 2 * lenient)
    variances = []
    for step in range(steps):
        distance, useful = far + (step + 0.5) / steps * (near - far), []
        for label in np.unique(classes):
            own = (classes == label).any(axis=1)
            if (own & same).any():
                accepted = np.sqrt(2 - 2 * scores[own]) <= distance
                sensitivity, specificity = accepted[same[own]].mean(), 1 - accepted[~same[own]].mean()
                useful.append(2 * sensitivity * specificity / max(sensitivity + specificity, 1e-12))
        variances.append(np.mean((np.array(useful) - np.mean(useful)) ** 2))
    return np.mean(variances)


@pytest.mark.parametrize("seed, low, high, steps", [(0, 0.01, 0.1, 100), (1, 0.05, 0.3, 7), (5, 0.2, 0.2, 1)])
def test_opis(seed, low, high, steps, monkeypatch):
    monkeypatch.setattr(pairs_module, "ROWS", 17)
    monkeypatch.setattr(pairs_module, "COLUMNS", 41)
    embeddings, labels = example(seed)
    wanted = opis(*naive_pairs(embeddings, labels), low, high, steps)
    found = evaluate(embeddings, labels, f"opis(low={low}, high={high}, steps={steps})")["opis"]
    assert found == pytest.approx(wanted, rel=0.02) and found > 1e-3


def identified(embeddings, labels, queries, gallery, rate):
    """Decides each query by its nearest gallery image. In a tie, the other class is first."""
    unit = embeddings.astype(np.float64) / np.linalg.norm(embeddings, axis=1, keepdims=True)
    known, strangers = [], []
    for i in np.flatnonzero(queries):
        others = [j for j in np.flatnonzero(gallery) if j != i]
        score, wrong, _ = max((unit[i] @ unit[j], labels[i] != labels[j], j) for j in others)
        if any(labels[i] == labels[j] for j in others):
            known.append((score, not wrong))
        else:
            strangers.append(score)
    rates = [(np.mean([score > t for score in strangers]), t) for t in [-1.0, *strangers]]
    threshold = min(t for alarms, t in rates if alarms <= rate)
    return np.mean([right and score > threshold for score, right in known])


@pytest.mark.parametrize("rate", [0.5, 0.1, 0.03])
@pytest.mark.parametrize("seed", [0, 6])
def test_open_set_identification(seed, rate, monkeypatch):
    monkeypatch.setattr(pairs_module, "ROWS", 13)
    monkeypatch.setattr(pairs_module, "COLUMNS", 29)
    embeddings, labels = example(seed, rows=220, classes=30, spread=0.5)
    random = np.random.default_rng(seed)
    gallery = (random.random(len(labels)) < 0.4) & (labels % 3 > 0)
    marks = {"queries": ~gallery, "gallery": gallery}
    name = f"dir_at_far_{rate}"
    found = evaluate(embeddings, labels, name, **marks)
    assert found == {name: pytest.approx(identified(embeddings, labels, rate=rate, **marks))} and 0 < found[name] < 1


def test_ties_are_named_wrongly_and_few_strangers_are_told(caplog):
    labels, gallery = np.array([0, 1, 0, 1, 2, 3]), np.arange(6) < 2
    marks = {"queries": ~gallery, "gallery": gallery}
    assert evaluate(np.ones([6, 2]), labels, "dir_at_far_0.5", **marks)["dir_at_far_0.5"] == 0
    points = np.array([[1.0, 0.0], [0.0, 1.0], [2.0, 0.1], [0.1, 2.0], [-1.0, -1.0], [-1.0, -2.0]])
    assert evaluate(points, labels, "dir_at_far_0.5", **marks)["dir_at_far_0.5"] == 1
    assert evaluate(points, labels, "dir_at_far_0.01", **marks) == {"dir_at_far_0.01": None}
    assert "100 of other classes. Found 2 and 2" in caplog.text
