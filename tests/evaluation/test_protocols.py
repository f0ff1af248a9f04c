"""Protocols worked out by hand, and against a count word by word."""

from types import SimpleNamespace

import numpy as np
import pytest

from tfdml import registry
from tfdml.evaluation import recall_at_k, retrieval
from tfdml.evaluation.protocols import one_of_each
from tfdml.evaluation.retrieval import negatives_ahead


def rows_of(labels, **columns):
    nothing = dict.fromkeys(("cameras", "groups", "is_query", "is_gallery"))
    return SimpleNamespace(
        labels=np.array(labels), **{**nothing, **{key: np.array(value) for key, value in columns.items()}}
    )


def on_a_circle(degrees):
    """Embeddings whose order by similarity is that of the angles between them."""
    radians = np.radians(degrees)
    return np.stack([np.cos(radians), np.sin(radians)], axis=1)


def measure(spec, embeddings, rows):
    return registry.create("protocol", spec)(embeddings, rows)


def ahead_word_by_word(embeddings, labels, queries, gallery, apart):
    """For each query what stands in its ranking, those of other classes first where they are as near."""
    unit = embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True)
    counts = []
    for query in np.flatnonzero(queries):
        ranked = []
        for row in np.flatnonzero(gallery):
            same = labels[row] == labels[query]
            if row != query and not (same and any(key[row] == key[query] for key in apart)):
                ranked.append((-unit[query] @ unit[row], same))
        ranked.sort(key=lambda entry: (entry[0], entry[1]))
        found = [place for place, (_, same) in enumerate(ranked) if same]
        counts.append(found[0] if found else -1)
    return counts


@pytest.mark.parametrize("seed, keys", [(0, 0), (1, 1), (2, 2), (3, 1)])
def test_equals_a_count_word_by_word(seed, keys):
    random = np.random.default_rng(seed)
    embeddings, labels = random.normal(size=(120, 3)), random.integers(-1, 25, 120)
    marks = {name: random.random(120) < 0.6 for name in ("queries", "gallery")}
    apart = [random.integers(0, 4, 120) for _ in range(keys)]
    found = negatives_ahead(embeddings, labels, apart=apart, **marks)
    assert found.tolist() == ahead_word_by_word(embeddings, labels, apart=apart, **marks)
    assert -1 in found and 0 in found


def test_blocks_do_not_show(monkeypatch):
    random = np.random.default_rng(0)
    arguments = random.normal(size=(100, 4)), random.integers(0, 9, 100)
    options = {"queries": random.random(100) < 0.5, "apart": [random.integers(0, 3, 100)]}
    whole = negatives_ahead(*arguments, **options)
    monkeypatch.setattr(retrieval, "BLOCK", 7)
    np.testing.assert_array_equal(negatives_ahead(*arguments, **options), whole)


def test_query_gallery_by_hand():
    """Two queries and three gallery images, as in In-shop.

    From the query at 0 degrees (class 2) the gallery is at 10 (class 3), 20 (class 2) and 90 (class 2): one ahead.
    From the query at 80 degrees (class 3) it is at 10, 60 and 70 away: 90 (class 2) at 10, 20 (class 2) at 60, then 10
    (class 3) at 70: two ahead. The other query, nearer still, is not in the gallery.
    """
    rows = rows_of([2, 3, 3, 2, 2], is_query=[1, 1, 0, 0, 0], is_gallery=[0, 0, 1, 1, 1])
    found = measure("query_gallery(ks=(1, 2, 3))", on_a_circle([0, 80, 10, 20, 90]), rows)
    assert found == {"recall_at_1": 0.0, "recall_at_2": 0.5, "recall_at_3": 1.0, "queries": 2}


def test_same_camera_and_distractors_by_hand():
    """As in Market-1501: person 1 is searched for from camera 1.

    At 5 degrees the same person by the same camera: not counted. At 10 a distractor, which counts against. At 15 the
    person by camera 2. At 3 another person by camera 1, which stays in the gallery. So two are ahead.
    """
    rows = rows_of([1, 1, 0, 1, 4], cameras=[1, 1, 1, 2, 1], is_query=[1, 0, 0, 0, 0], is_gallery=[0, 1, 1, 1, 1])
    embeddings = on_a_circle([0, 5, 10, 15, 3])
    assert measure("query_gallery(ks=(1, 2, 3))", embeddings, rows) == {
        "recall_at_1": 0.0,
        "recall_at_2": 0.0,
        "recall_at_3": 1.0,
        "queries": 1,
    }
    without_cameras = measure(
        "query_gallery(ks=(1, 2))", embeddings, rows_of(rows.labels, is_query=rows.is_query, is_gallery=rows.is_gallery)
    )
    assert without_cameras == {"recall_at_1": 0.0, "recall_at_2": 1.0, "queries": 1}


def test_a_query_seen_by_its_own_camera_alone_is_left_out():
    rows = rows_of([1, 1, 2, 2], cameras=[1, 1, 1, 2])
    assert measure("query_gallery", on_a_circle([0, 5, 40, 45]), rows)["queries"] == 2


def test_groups_count_as_cameras_do():
    """Frames of one film: the nearest, 1 degree away, is of the query's film; the next of its class is at 30."""
    rows = rows_of([1, 1, 1, 2], groups=[7, 7, 8, 7], is_query=[1, 0, 0, 0])
    embeddings = on_a_circle([0, 1, 30, 20])
    assert measure("query_gallery(ks=(1, 2))", embeddings, rows) == {
        "recall_at_1": 0.0,
        "recall_at_2": 1.0,
        "queries": 1,
    }
    assert measure("self_retrieval", embeddings, rows)["queries"] == 3


def test_rows_without_marks_are_searched_all_against_all():
    random = np.random.default_rng(0)
    embeddings, labels = random.normal(size=(50, 3)), random.integers(0, 9, 50)
    expected = recall_at_k(embeddings, labels)
    assert measure("query_gallery", embeddings, rows_of(labels)) == expected
    assert measure("self_retrieval", embeddings, rows_of(labels, is_query=labels < 4, cameras=labels)) == expected


def test_random_gallery_by_hand():
    """Class 1 at 0 and 40 degrees, class 2 at 10 and 100: whichever is drawn, what becomes of the queries is known.

    Gallery (0, 10): 40 is nearer to 10, missed; 100 is nearer to 10, found: 1/2. Gallery (0, 100): 40 finds 0; 10 is
    nearer to 0, missed: 1/2. Gallery (40, 10): 0 is nearer to 10, missed; 100 is nearer to 40, missed: 0. Gallery
    (40, 100): 0 finds 40; 10 is nearer to 40, missed: 1/2.
    """
    embeddings, rows = on_a_circle([0, 40, 10, 100]), rows_of([1, 1, 2, 2])
    by_gallery = {(0, 2): 0.5, (0, 3): 0.5, (1, 2): 0.0, (1, 3): 0.5}
    drawn = [
        tuple(np.flatnonzero(one_of_each(rows.labels, np.random.default_rng([5, draw]))).tolist()) for draw in range(10)
    ]
    assert len(set(drawn)) > 2
    found = measure("random_gallery(draws=10, seed=5, ks=(1, 2))", embeddings, rows)
    expected = np.mean([by_gallery[gallery] for gallery in drawn])
    assert found == {"recall_at_1": pytest.approx(expected), "recall_at_2": 1.0, "queries": 2}
    assert measure("random_gallery(draws=10, seed=5, ks=(1, 2))", embeddings, rows) == found


def test_one_of_each_class_is_drawn_evenly():
    labels = np.array([5, 5, 5, 2, 9, 9])
    marks = np.array([one_of_each(labels, np.random.default_rng(seed)) for seed in range(3000)])
    assert (np.stack([marks[:, labels == label].sum(1) for label in (2, 5, 9)]) == 1).all()
    np.testing.assert_allclose(marks.mean(0), [1 / 3, 1 / 3, 1 / 3, 1, 1 / 2, 1 / 2], atol=0.04)


def test_a_vehicle_of_one_image_is_in_the_gallery_alone():
    found = measure("random_gallery(ks=(1,))", np.eye(3)[[0, 0, 1]], rows_of([1, 1, 2]))
    assert found == {"recall_at_1": 1.0, "queries": 1}


@pytest.mark.parametrize("spec", ["query_gallery", "random_gallery", "self_retrieval"])
def test_a_collapsed_embedding_scores_zero(spec):
    rows = rows_of(np.repeat(np.arange(30), 4), is_query=np.arange(120) % 2 == 0, cameras=np.arange(120) % 4)
    assert measure(spec, np.ones((120, 8)), rows)["recall_at_1"] == 0.0


@pytest.mark.parametrize("ks", ["()", "(0, 1)", "(2, 4)", "(1.0, 2)", "5", "(1, True)"])
def test_ks_that_do_not_work_are_told(ks):
    with pytest.raises(ValueError, match="ks to be an integer of 1 or more, or a tuple|Expected ks to include 1"):
        registry.create("protocol", f"query_gallery(ks={ks})")


def test_bad_input_is_told():
    with pytest.raises(ValueError, match="draws to be an integer of 1 or more; received 0"):
        registry.create("protocol", "random_gallery(draws=0)")
    with pytest.raises(ValueError, match="Unknown protocol 'query_galery'. Did you mean 'query_gallery'"):
        registry.create("protocol", "query_galery")
    with pytest.raises(ValueError, match=r"one boolean for each of 3 rows, received shape \(2,\)"):
        recall_at_k(np.eye(3), [1, 1, 2], queries=[True, False])
    with pytest.raises(ValueError, match="needs a query with another image of its class"):
        recall_at_k(np.eye(2), [1, 1], queries=[True, False], gallery=[True, False])
