"""Metrics of embeddings and labels: computed by hand, per query, and for bad input."""

import numpy as np
import pytest

from tests.evaluation.test_protocols import on_a_circle
from tfdml import registry
from tfdml.evaluation import evaluate
from tfdml.evaluation.evaluate import measure
from tfdml.evaluation.metrics import ClusterMetric, metric_of, metrics_of
from tfdml.evaluation.queries import RetrievalTask


def test_worked_out_by_hand():
    # From the query at 0 degrees, the other image of class 0 is at 30, and an image of class 1 is nearer, at 10.
    found = evaluate(on_a_circle([0, 30, 10, 80]), [0, 0, 1, 1], ("recall_at_1", "recall_at_2", "recall_at_3"))
    assert found == {"recall_at_1": 0.0, "recall_at_2": 0.75, "recall_at_3": 1.0, "queries": 4}


def test_collapsed_embedding_scores_zero():
    labels = np.repeat(np.arange(50), 4)
    collapsed = np.tile(np.random.default_rng(0).normal(size=(1, 64)), (200, 1))
    assert evaluate(collapsed, labels)["recall_at_8"] == 0.0
    nearly = collapsed * (1 + 1e-7 * np.random.default_rng(0).normal(size=(200, 64)))
    assert evaluate(nearly, labels)["recall_at_1"] == 0.0


def test_perfect_embedding_scores_one():
    labels = np.repeat(np.arange(10), 3)
    names = ("recall_at_1", "precision_at_2", "r_precision", "map_at_r", "map", "map(trapezoid=True)", "mrr")
    found = evaluate(np.eye(10)[labels], labels, names)
    assert found.pop("queries") == 30
    assert found == pytest.approx(dict.fromkeys(found, 1.0))


def test_labels_may_have_a_second_axis_and_a_distance_is_one_of_two():
    assert evaluate(np.eye(2)[[0, 0, 1, 1]], np.array([[0], [0], [1], [1]]))["recall_at_1"] == 1.0
    with pytest.raises(ValueError, match="distance must be 'cosine' or 'euclidean'. Received: distance='l2'"):
        evaluate(np.eye(2), [0, 0], distance="l2")
    with pytest.raises(ValueError, match="2 of 3 labels are missing. The first is in row 1"):
        evaluate(np.eye(3), np.array(["a", None, float("nan")], object))


def test_queries_alone_in_their_class_are_left_out():
    found = evaluate(np.eye(4)[[0, 0, 1, 2]], [5, 5, 6, 7])
    assert found["queries"] == 2 and found["recall_at_1"] == 1.0
    with pytest.raises(ValueError, match="needs at least one query with another image of its class in the gallery"):
        evaluate(np.eye(3), [0, 1, 2])
    # Clusters need no positives.
    assert set(evaluate(np.eye(3), [0, 1, 2], "purity")) == {"purity"}


def test_values_of_each_query_and_class():
    task = RetrievalTask.of([0, 0, 1, 1, 2])
    scores = measure(on_a_circle([0, 30, 10, 80, 200]), task, metrics_of(("recall_at_2", "mrr")))
    assert scores.queries.tolist() == [0, 1, 2, 3]
    assert scores.per_query["recall_at_2"].tolist() == [1, 1, 0, 1]
    assert scores.per_query["mrr"].tolist() == [1 / 2, 1 / 2, 1 / 3, 1 / 2]
    by_class = scores.per_class([7, 7, 9, 9, 4])
    assert by_class == {
        7: {"recall_at_2": 1.0, "mrr": 0.5, "queries": 2},
        9: {"recall_at_2": 0.5, "mrr": pytest.approx(5 / 12), "queries": 2},
    }


def test_the_metrics_of_a_search_do_not_depend_on_each_other():
    random = np.random.default_rng(0)
    labels = random.integers(0, 9, 90)
    embeddings = np.eye(9)[labels] + random.normal(size=(90, 9))
    names = ("recall_at_1", "mrr", "map", "nmi")
    together = evaluate(embeddings, labels, names)
    assert together == {name: evaluate(embeddings, labels, name)[name] for name in names} | {"queries": 90}


def test_clusters_are_of_queries_and_gallery():
    random = np.random.default_rng(0)
    embeddings, labels = random.normal(size=(60, 4)), random.integers(0, 6, 60)
    marks = np.arange(60) < 40
    alone = evaluate(embeddings[:40], labels[:40], "nmi")
    assert evaluate(embeddings, labels, "nmi", queries=marks, gallery=marks) == alone


@pytest.mark.parametrize(
    "specs, message",
    [
        (("recall@1",), "Unknown metric 'recall@1'. Did you mean 'recall_at_1'"),
        (("R@10",), "Unknown metric 'R@10'. Did you mean 'recall_at_10'"),
        (("mAP@R",), "Unknown metric 'mAP@R'. Did you mean 'map_at_r'"),
        (("recal_at_1",), "Unknown metric 'recal_at_k'. Did you mean 'recall_at_k'"),
        (("nmi", "recall_at_1", "recall_at_k(k=1)"), "listed only once. Received more than once: recall_at_1"),
        (("recall_at_k",), "The metric 'recall_at_k' requires k"),
        (("opis(low=0.2, high=0.1)",), "low must be at most high"),
    ],
)
def test_wrong_metrics_are_named(specs, message):
    with pytest.raises(ValueError, match=message.replace("(", r"\(").replace(")", r"\)")):
        metrics_of(specs)


@pytest.mark.parametrize("name", ["recall_at_1", "roc_auc", "uniformity", "hubness", "nmi"])
def test_bad_embeddings_are_named(name):
    for embeddings, labels, message in [
        (
            np.array([[1.0, 2], [np.inf, 1], [np.nan, 1]]),
            [0, 0, 1],
            "2 of 3 embeddings are not finite. The first is row 1",
        ),
        (np.ones((3, 1)), [0, 0], r"Expected one embedding per label. Received: shapes \(3, 1\) and \(2,\)"),
        (np.ones(3), [0, 0, 1], r"embeddings must be numbers of shape \[N, d\]. Received: shape \(3,\)"),
        (np.zeros((3, 0)), [0, 0, 1], r"numbers of shape \[N, d\]. Received: shape \(3, 0\)"),
        (np.array([["a"], [None], ["b"]]), [0, 0, 1], r"Received: shape \(3, 1\) and type object"),
    ]:
        with pytest.raises(ValueError, match=message):
            evaluate(embeddings, labels, name)
    with pytest.raises(ValueError, match="None of the 3 rows is a query or in the gallery"):
        evaluate(np.ones((3, 2)), [0, 0, 1], name, queries=[False] * 3, gallery=[False] * 3)


def test_every_metric_says_what_it_is():
    for name in registry.names("metric"):
        short = name.replace("_at_k", "_at_3").replace("_at_far", "_at_far_0.01")
        metric = metric_of(short)
        assert metric.name == short
        assert not (metric.while_training and isinstance(metric, ClusterMetric))


def test_bfloat16_is_read_as_float32():
    """Models in mixed_bfloat16 predict such embeddings."""
    embeddings = np.random.default_rng(0).normal(size=(12, 4)).astype("bfloat16")
    labels = np.arange(12) % 4
    assert evaluate(embeddings, labels) == evaluate(embeddings.astype(np.float32), labels)


def test_labels_that_are_all_equal_are_told():
    embeddings = np.random.default_rng(0).normal(size=(6, 3))
    with pytest.warns(UserWarning, match="All 6 labels are equal, so every neighbor is right") as told:
        assert evaluate(embeddings, [4] * 6, "recall_at_1")["recall_at_1"] == 1.0
    assert told[0].filename == __file__
    with pytest.raises(ValueError, match="No query has one. Check the labels"):
        evaluate(embeddings, range(6), "recall_at_1")
