"""Embedding metrics, compared with literal implementations of their definitions."""

import itertools

import numpy as np
import pytest

from tfdml.evaluation import evaluate
from tfdml.evaluation.metrics import metric_of


def example(seed=0, rows=90, classes=12, dim=7):
    random = np.random.default_rng(seed)
    labels = random.integers(0, classes, rows) * 10 - 3
    return random.normal(size=(120, dim))[labels + 3] + random.normal(size=(rows, dim)) * np.arange(1, dim + 1), labels


def unit(embeddings):
    return np.array([each / np.sqrt(np.sum(each**2)) for each in embeddings])


def positive_pairs(embeddings, labels):
    pairs = itertools.combinations(range(len(labels)), 2)
    return [(embeddings[i], embeddings[j]) for i, j in pairs if labels[i] == labels[j]]


def intra_class_distance(embeddings, labels):
    return np.mean([np.sqrt(np.sum((x - y) ** 2)) for x, y in positive_pairs(embeddings, labels)])


def inter_class_distance(embeddings, labels):
    means = [embeddings[labels == label].mean(axis=0) for label in set(labels.tolist())]
    return np.mean([np.sqrt(np.sum((x - y) ** 2)) for x, y in itertools.combinations(means, 2)])


def distance_ratio(embeddings, labels):
    return intra_class_distance(embeddings, labels) / inter_class_distance(embeddings, labels)


def alignment(embeddings, labels):
    return np.mean([np.sum((x - y) ** 2) for x, y in positive_pairs(unit(embeddings), labels)])


def uniformity(embeddings, labels):
    pairs = itertools.combinations(unit(embeddings), 2)
    return np.log(np.mean([np.exp(-2 * np.sum((x - y) ** 2)) for x, y in pairs]))


def effective_rank(embeddings, labels):
    values = np.linalg.svd(embeddings, compute_uv=False)
    shares = values / np.sum(np.abs(values))
    return np.exp(sum(-share * np.log(share) for share in shares))


def dead_dimensions(embeddings, labels):
    variances = [np.mean((column - column.mean()) ** 2) for column in embeddings.T]
    return np.mean([variance <= 1e-3 * np.mean(variances) for variance in variances])


def nearest(points, row, k):
    others = [other for other in range(len(points)) if other != row]
    return sorted(others, key=lambda other: np.sum((points[row] - points[other]) ** 2))[:k]


def hubness(embeddings, labels, k=10):
    times = np.bincount([near for row in range(len(embeddings)) for near in nearest(embeddings, row, k)])
    times = np.pad(times, (0, len(embeddings) - len(times)))
    mean, deviation = np.mean(times), np.sqrt(np.mean((times - np.mean(times)) ** 2))
    return np.mean((times - mean) ** 3) / deviation**3


NAMES = [
    "intra_class_distance",
    "inter_class_distance",
    "distance_ratio",
    "alignment",
    "uniformity",
    "effective_rank",
    "dead_dimensions",
    "hubness",
]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("classes", [12, 2])
@pytest.mark.parametrize("rows_at_once", [7, 8192])
def test_definition(name, classes, rows_at_once, monkeypatch):
    monkeypatch.setattr("tfdml.evaluation.metrics.embedding.ROWS", rows_at_once)
    if rows_at_once == 7:
        monkeypatch.setattr("tfdml.evaluation.metrics.pairs.ROWS", rows_at_once)
    embeddings, labels = example(classes=classes)
    # One dimension varies much less than the others.
    embeddings[:, 2] = 5 + 1e-3 * embeddings[:, 2]
    found = metric_of(name).value(embeddings, labels)
    assert found == pytest.approx(globals()[name](embeddings, labels), rel=1e-9)
    single = embeddings.astype(np.float32)
    assert metric_of(name).value(single, labels) == pytest.approx(found, rel=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_evaluate_scales_to_unit_length_for_cosine(name):
    embeddings, labels = example()
    expected = globals()[name](unit(embeddings), labels)
    assert evaluate(embeddings, labels, name) == {name: pytest.approx(expected, rel=1e-5)}
    expected = globals()[name](embeddings, labels)
    assert evaluate(embeddings, labels, name, distance="euclidean")[name] == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("factor", [1e-30, 1e-23, 1e20, 1e30])
def test_cosine_similarities_do_not_depend_on_lengths(factor):
    embeddings, labels = example()
    names = ("uniformity", "alignment", "nmi", "graded_map", "relevance_at_1", "recall_at_1", "roc_auc")
    single = embeddings.astype(np.float32)
    found = evaluate(single * np.float32(factor), labels, names)
    assert found == pytest.approx(evaluate(single, labels, names), rel=1e-5)


@pytest.mark.parametrize("order", list(itertools.permutations(NAMES[:3])))
def test_distances_are_computed_once(order, monkeypatch):
    embeddings, labels = example()
    expected, computed = {name: evaluate(embeddings, labels, name)[name] for name in order}, []
    for name in NAMES[:2]:
        kind = type(metric_of(name))
        plain = kind.value
        monkeypatch.setattr(kind, "value", lambda *args, plain=plain: computed.append("") or plain(*args))
    assert evaluate(embeddings, labels, order) == expected
    assert len(computed) == 2


def test_arguments_are_those_of_the_definitions():
    embeddings, labels = example()
    assert metric_of("hubness(k=3)").value(embeddings, labels) == pytest.approx(hubness(embeddings, labels, k=3))
    squared = [np.sum((x - y) ** 2) for x, y in itertools.combinations(unit(embeddings), 2)]
    found = metric_of("uniformity(t=0.5)").value(embeddings, labels)
    assert found == pytest.approx(np.log(np.mean(np.exp(-0.5 * np.array(squared)))))
    variances = np.var(embeddings, axis=0)
    few = np.mean(variances <= 0.5 * variances.mean())
    assert metric_of("dead_dimensions(fraction=0.5)").value(embeddings, labels) == few > 0


def test_uniformity_of_a_sample_is_near_that_of_all():
    embeddings, labels = example(rows=4000)
    whole = metric_of("uniformity").value(embeddings, labels)
    sampled = metric_of("uniformity(rows=1000)").value(embeddings, labels)
    assert sampled != whole and sampled == pytest.approx(whole, abs=0.05)
    assert sampled == metric_of("uniformity(rows=1000)").value(embeddings, labels)


def test_duplicates_are_neighbors_but_no_image_is_its_own():
    """Three images at each of 20 places. With K = 2, an image's neighbors are the two others at its place."""
    random = np.random.default_rng(0)
    embeddings = np.repeat(random.normal(size=(20, 5)), 3, axis=0)
    assert metric_of("hubness(k=2)").value(embeddings, np.arange(60)) is None
    # With 30 images at one place, the first rows are the neighbors of all. No image may be missing.
    together = np.zeros((30, 5))
    assert np.isfinite(metric_of("hubness(k=2)").value(together, np.arange(30)))


def test_a_collapsed_embedding():
    embeddings = np.tile(np.random.default_rng(0).normal(size=(1, 6)).astype(np.float32), (40, 1))
    labels = np.repeat(np.arange(8), 5)
    assert {name: metric_of(name).value(embeddings, labels) for name in NAMES if name != "hubness"} == {
        "intra_class_distance": 0.0,
        "inter_class_distance": 0.0,
        "distance_ratio": None,
        "alignment": 0.0,
        "uniformity": 0.0,
        "effective_rank": pytest.approx(1, abs=1e-9),
        "dead_dimensions": 1.0,
    }


@pytest.mark.parametrize("rows_at_once", [7, 8192])
def test_effective_rank_of_fewer_rows_than_dimensions(rows_at_once, monkeypatch):
    """With fewer rows than dimensions, the product of the rows is used."""
    embeddings, sizes = example(rows=20, dim=50)[0], []
    monkeypatch.setattr("tfdml.evaluation.metrics.embedding.ROWS", rows_at_once)
    plain = np.linalg.eigvalsh
    monkeypatch.setattr(np.linalg, "eigvalsh", lambda matrix: sizes.append(len(matrix)) or plain(matrix))
    found = metric_of("effective_rank").value(embeddings, None)
    assert found == pytest.approx(effective_rank(embeddings, None), rel=1e-9) and sizes == [20]


def test_what_has_no_value_is_none():
    embeddings, alone, one_class = np.eye(4), np.arange(4), np.zeros(4, int)
    for name in ("intra_class_distance", "alignment", "distance_ratio"):
        assert metric_of(name).value(embeddings, alone) is None
    for name in ("inter_class_distance", "distance_ratio"):
        assert metric_of(name).value(embeddings, one_class) is None
    assert metric_of("distance_ratio").value(np.array([[-1.0], [1], [-1], [1]]), np.array([0, 0, 1, 1])) is None
    assert metric_of("effective_rank").value(np.zeros((4, 3)), alone) is None
    assert metric_of("hubness").value(embeddings, alone) is None
    assert metric_of("uniformity").value(np.ones((1, 3)), np.zeros(1)) is None


def test_hubness_waits_for_the_end_of_a_run():
    assert [name for name in NAMES if not metric_of(name).while_training] == ["hubness"]
    assert not any(metric_of(name).larger_is_better for name in NAMES)


def kept(embeddings, labels, k):
    """Word by word."""
    pairs = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    first, second = (embeddings[[pair[place] for pair in pairs]] for place in (0, 1))
    return np.mean([len({*nearest(first, row, k)} & {*nearest(second, row, k)}) / k for row in range(len(pairs))])


@pytest.mark.parametrize("k, images", [(3, 20), (10, 20), (10, 40)])
def test_neighbors_kept_equal_a_loop(k, images):
    random = np.random.default_rng(k)
    points = random.normal(size=(images, 4))
    views = np.concatenate([points, points + 0.5 * random.normal(size=points.shape)])
    order = random.permutation(2 * images)
    labels, embeddings = np.tile(np.arange(images), 2)[order], views[order].astype(np.float32)
    found = metric_of(f"neighbors_kept(k={k})").value(embeddings, labels)
    assert found == pytest.approx(kept(embeddings, labels, k)) and 0.2 < found < 1


def test_few_images_and_other_numbers_of_views():
    points = np.random.default_rng(0).normal(size=(8, 4)).astype(np.float32)
    assert metric_of("neighbors_kept").value(points, np.tile(np.arange(4), 2)) is not None
    assert metric_of("neighbors_kept").value(points, np.arange(8) // 4) is None
    assert metric_of("neighbors_kept").value(points[:4], np.arange(4) // 2) is None
