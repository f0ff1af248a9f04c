"""Metrics that use all levels of a hierarchy, compared with their definitions and scikit-learn."""

import dataclasses

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, ndcg_score

from pipelines.datasets import Split
from tfdml import registry
from tfdml.evaluation import evaluate
from tfdml.evaluation.evaluate import by_class_size, nearest_shares
from tfdml.evaluation.metrics import metric_of
from tfdml.evaluation.metrics.graded import grades_in_order

GRADED = ("relevance_at_4", "mistake_severity", "ndcg", "hierarchical_ap", "average_set_intersection")


def example(seed=0, rows=40):
    random = np.random.default_rng(seed)
    fine = random.integers(0, 9, rows)
    levels = np.stack([fine // 6, fine // 3, fine], axis=1)
    centers = random.normal(size=(9, 5))
    return (centers[fine] + 1.5 * random.normal(size=(rows, 5))).astype(np.float32), levels


def in_order(embeddings, query, grade):
    """Grades of the others, nearest first. Among equally near ones, the lowest grade comes first."""
    squared = [np.sum((embeddings[query].astype(float) - row) ** 2) for row in embeddings]
    others = [row for row in range(len(embeddings)) if row != query]
    return [grade for _, grade in sorted((round(squared[row], 6), grade(row)) for row in others)]


def ranking(embeddings, levels, query):
    """Levels shared with the others, nearest first."""
    return in_order(embeddings, query, lambda row: sum(a == b for a, b in zip(levels[query], levels[row], strict=True)))


def codes(seed=0, rows=40):
    """Codes of -1 and 1, so that many are equally near."""
    random = np.random.default_rng(seed)
    return np.where(random.random((rows, 7)) < 0.5, -1, 1).astype(np.float32)


def hierarchical_ap(embeddings, levels, alpha):
    """The equation, computed literally."""
    values, count = [], levels.shape[1]
    for query in range(len(levels)):
        shared = ranking(embeddings, levels, query)
        rel = [(level / count) ** alpha / shared.count(level) for level in shared]
        if not sum(rel):
            continue
        total = 0.0
        for k in range(len(shared)):
            if shared[k]:
                h_rank = rel[k] + sum(min(rel[k], rel[j]) for j in range(k) if shared[j])
                total += h_rank / (k + 1)
        values.append(total / sum(rel))
    return np.mean(values)


@pytest.mark.parametrize("alpha", [1.0, 2.5])
def test_hierarchical_ap_equals_its_equation(alpha):
    embeddings, levels = example()
    found = metric_of(f"hierarchical_ap(alpha={alpha})").value(embeddings, levels)
    assert found == pytest.approx(hierarchical_ap(embeddings, levels, alpha)) and 0.1 < found < 0.9


def test_with_one_level_it_is_average_precision():
    embeddings, levels = example()
    fine, expected = levels[:, 2], []
    for query in range(len(fine)):
        same, others = fine == fine[query], np.arange(len(fine)) != query
        if np.sum(same & others):
            scores = -np.sum((embeddings.astype(float) - embeddings[query]) ** 2, axis=1)
            expected.append(average_precision_score(same[others], scores[others]))
    assert metric_of("hierarchical_ap").value(embeddings, fine) == pytest.approx(np.mean(expected))


def set_intersection(embeddings, levels):
    """Computed with sets: the best are sorted by levels, then by their ranks among the nearest."""
    values = []
    for query in range(len(levels)):
        shared = ranking(embeddings, levels, query)
        best = sorted(range(len(shared)), key=lambda place: (-shared[place], place))
        positives = sum(level > 0 for level in shared)
        shares = [len(set(range(n)) & set(best[:n])) / n for n in range(1, positives + 1)]
        values += [np.mean(shares)] if shares else []
    return np.mean(values)


@pytest.mark.parametrize("seed", [0, 1])
def test_average_set_intersection_equals_a_loop_over_sets(seed):
    embeddings, levels = example(seed)
    found = metric_of("average_set_intersection").value(embeddings, levels)
    assert found == pytest.approx(set_intersection(embeddings, levels)) and 0.1 < found < 0.9


def test_ndcg_equals_scikit_learn():
    embeddings, levels = example(1)
    expected = []
    for query in range(len(levels)):
        gains = 2.0 ** np.array(ranking(embeddings, levels, query)) - 1
        expected.append(ndcg_score(gains[None], -np.arange(len(gains))[None]))
    assert metric_of("ndcg").value(embeddings, levels) == pytest.approx(np.mean(expected))


@pytest.mark.parametrize("scale", [1.0, 7**-0.5, 0.3])
def test_equally_near_images_count_against_the_model(scale):
    embeddings, (_, levels) = codes() * np.float32(scale), example()
    found = {name: metric_of(name).value(embeddings, levels) for name in GRADED}
    nearest = [ranking(embeddings, levels, query) for query in range(len(levels))]
    gains = [2.0 ** np.array([each]) - 1 for each in nearest]
    assert found == pytest.approx(
        {
            "relevance_at_4": np.mean([each[:4] for each in nearest]) / 3,
            "mistake_severity": np.mean([3 - each[0] for each in nearest if each[0] < 3]),
            "ndcg": np.mean([ndcg_score(each, -np.arange(each.size)[None]) for each in gains]),
            "hierarchical_ap": hierarchical_ap(embeddings, levels, 1.0),
            "average_set_intersection": set_intersection(embeddings, levels),
        }
    )


@pytest.mark.parametrize("noise", [0.0, 1e-8])
def test_a_collapsed_embedding_has_what_precision_has(noise):
    embeddings = (np.ones((40, 3)) + noise * np.random.default_rng(0).normal(size=(40, 3))).astype(np.float32)
    embeddings /= np.linalg.norm(embeddings, axis=1, keepdims=True)
    labels = np.arange(40) // 20
    found = evaluate(embeddings, labels, ("relevance_at_1", "precision_at_1", "graded_map", "map"))
    assert found["relevance_at_1"] == found["precision_at_1"] == 0
    assert found["graded_map"] == pytest.approx(found["map"])
    levels = np.stack([labels * 0, labels], axis=1)
    assert metric_of("mistake_severity").value(embeddings, levels) == 1
    assert nearest_shares(embeddings, levels, ("genus", "class")) == {"class": 0, "genus": 1, "none": 0}


def test_a_perfect_embedding_has_one_and_a_collapsed_one_less_than_a_random_one():
    _, levels = example()
    perfect = np.concatenate([np.eye(9)[levels[:, 2]], 3 * np.eye(3)[levels[:, 1]], 9 * np.eye(2)[levels[:, 0]]], 1)
    for name in ("hierarchical_ap", "ndcg", "average_set_intersection"):
        metric = metric_of(name)
        assert metric.value(perfect.astype(np.float32), levels) == pytest.approx(1)
        collapsed = metric.value(np.ones((len(levels), 3), np.float32), levels)
        assert collapsed < metric.value(np.random.default_rng(0).normal(size=(len(levels), 3)), levels)
        assert metric.value(perfect[:2], np.array([[0, 0], [1, 1]])) is None


def test_blocks_change_nothing(monkeypatch):
    embeddings, levels = example()
    several = several_labels()
    whole = [np.concatenate(list(grades_in_order(embeddings, labels))) for labels in (levels, several)]
    near = metric_of("relevance_at_4").value(embeddings, several)
    monkeypatch.setattr("tfdml.evaluation.metrics.graded.BLOCK", 3 * len(levels))
    for labels, expected in zip((levels, several), whole, strict=True):
        np.testing.assert_array_equal(np.concatenate(list(grades_in_order(embeddings, labels))), expected)
    assert metric_of("relevance_at_4").value(embeddings, several) == pytest.approx(near)


def several_labels():
    """Up to six labels per image. Some images have none."""
    return np.random.default_rng(3).random((40, 6)) < 0.3


def jaccard(one, other):
    return sum(one & other) / max(sum(one | other), 1)


def relevance_in_order(embeddings, several, query):
    return np.array(in_order(embeddings, query, lambda row: jaccard(several[query], several[row])))


@pytest.mark.parametrize("kind", ["normal", "codes", "codes at unit length"])
def test_several_labels_against_loops_and_scikit_learn(kind):
    embeddings = {"normal": example()[0], "codes": codes(), "codes at unit length": codes() / np.float32(7**0.5)}[kind]
    several, expected = several_labels(), {"relevance_at_4": [], "ndcg": [], "graded_map": []}
    for query in range(len(several)):
        found = relevance_in_order(embeddings, several, query)
        expected["relevance_at_4"].append(np.mean(found[:4]))
        if np.any(found > 0):
            expected["ndcg"].append(ndcg_score(2.0 ** found[None] - 1, -np.arange(len(found))[None]))
            each, best = (
                sum(np.sum(order[: k + 1]) / (k + 1) for k in range(len(order)) if order[k] > 0)
                for order in (found, sorted(found, reverse=True))
            )
            expected["graded_map"].append(each / best)
    for name, values in expected.items():
        assert metric_of(name).value(embeddings, several) == pytest.approx(np.mean(values), rel=1e-5), name


def test_with_one_class_an_image_graded_metrics_are_those_of_ranks():
    embeddings, levels = example()
    fine = levels[:, 2]
    for several in (fine, np.eye(9, dtype=bool)[fine]):
        found = metric_of("graded_map").value(embeddings, several)
        assert found == pytest.approx(evaluate(embeddings, fine, "map", distance="euclidean")["map"], rel=1e-5)


def test_the_severity_of_mistakes_is_the_height_of_the_common_ancestor():
    embeddings, levels = example()
    nearest = [ranking(embeddings, levels, query)[0] for query in range(len(levels))]
    heights = [3 - shared for shared in nearest if shared < 3]
    assert metric_of("mistake_severity").value(embeddings, levels) == pytest.approx(np.mean(heights))
    assert metric_of("mistake_severity").value(np.eye(9)[levels[:, 2]] + 0.0, levels) is None
    shares = nearest_shares(embeddings, levels, ("family", "genus", "class"))
    counts = [nearest.count(shared) for shared in (3, 2, 1, 0)]
    assert list(shares) == ["class", "genus", "family", "none"]
    np.testing.assert_allclose(list(shares.values()), np.array(counts) / 40)


@pytest.fixture
def rows():
    _, levels = example()
    images = np.array([str(row) for row in range(len(levels))], dtype=object)
    names = ("family", "genus", "class")
    return Split(images, levels[:, 2], hierarchy=levels, level_names=names)


def test_the_protocol_measures_each_level(rows):
    embeddings, levels = example()
    protocol = registry.create("protocol", "levels(metrics=('recall_at_1', 'ndcg', 'map_at_r', 'nmi'))")
    found = protocol(embeddings, rows)
    for place, suffix in ((0, "_of_family"), (1, "_of_genus"), (2, "")):
        expected = evaluate(embeddings, levels[:, place], ("recall_at_1", "map_at_r"))
        for name in ("recall_at_1", "map_at_r"):
            assert found[f"{name}{suffix}"] == expected[name]
    of_ranks = [f"{name}{suffix}" for name in ("recall_at_1", "map_at_r") for suffix in ("", "_of_family", "_of_genus")]
    assert list(found) == [*of_ranks[:3], "ndcg", *of_ranks[3:], "nmi", "queries"]
    unit = embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True)
    assert found["ndcg"] == pytest.approx(metric_of("ndcg").value(unit, levels))


def test_the_protocol_of_several_labels(rows):
    embeddings, _ = example()
    rows = dataclasses.replace(rows, attributes=several_labels())
    found = registry.create("protocol", "several_labels")(embeddings, rows)
    assert list(found) == ["relevance_at_1", "relevance_at_10", "graded_map", "ndcg"]
    unit = embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True)
    assert found["ndcg"] == pytest.approx(metric_of("ndcg").value(unit, rows.attributes))
    with pytest.raises(ValueError, match="cannot measure recall_at_1, which needs classes"):
        registry.create("protocol", "several_labels(metrics=('ndcg', 'recall_at_1'))")(embeddings, rows)
    with pytest.raises(ValueError, match="needs multi-label images"):
        registry.create("protocol", "several_labels")(embeddings, dataclasses.replace(rows, attributes=None))


def test_scores_by_class_size():
    sizes = [2, 3, 3, 5, 9, 12]
    labels = np.repeat(np.arange(6), sizes)
    embeddings = np.random.default_rng(0).normal(size=(len(labels), 3))
    scores = registry.create("protocol", "self_retrieval(metrics=('recall_at_1',))").scores(embeddings, split(labels))
    found = by_class_size(scores, labels)
    assert {name: (part["classes"], part["images"]) for name, part in found.items()} == {
        "head": (1, 12),
        "middle": (2, 14),
        "tail": (3, 8),
    }
    whole = sum(part["recall_at_1"] * part["images"] for part in found.values()) / len(labels)
    assert whole == pytest.approx(scores.values["recall_at_1"])
    assert by_class_size(scores, np.repeat(np.arange(17), 2)) == {}


def split(labels):
    return Split(np.array([str(row) for row in range(len(labels))], dtype=object), labels)


def test_it_needs_levels(rows):
    with pytest.raises(ValueError, match="these images have none. Pass rows with a hierarchy"):
        registry.create("protocol", "levels")(example()[0], dataclasses.replace(rows, hierarchy=None))
