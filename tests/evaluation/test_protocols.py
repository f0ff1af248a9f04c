"""Protocols, computed by hand and compared with a literal count."""

from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from pipelines.datasets import load
from tfdml import registry
from tfdml.evaluation import evaluate
from tfdml.evaluation.evaluate import METRICS
from tfdml.evaluation.protocols.protocol import one_of_each


def rows_of(labels, **columns):
    nothing = dict.fromkeys(("cameras", "groups", "is_query", "is_gallery"))
    return SimpleNamespace(
        labels=np.array(labels), **{**nothing, **{key: np.array(value) for key, value in columns.items()}}
    )


def recalls(*ks):
    return f"metrics={tuple(f'recall_at_{k}' for k in ks)}"


def on_a_circle(degrees):
    """Embeddings at these angles, which determine the order by similarity."""
    radians = np.radians(degrees)
    return np.stack([np.cos(radians), np.sin(radians)], axis=1)


def measure(spec, embeddings, rows):
    return registry.create("protocol", spec)(embeddings, rows)


def test_query_gallery_by_hand():
    """Two queries and three gallery images, as in In-shop.

    From the query at 0 degrees (class 2) the gallery is at 10 (class 3), 20 (class 2) and 90 (class 2): one ahead.
    From the query at 80 degrees (class 3) it is at 10, 60 and 70 away: 90 (class 2) at 10, 20 (class 2) at 60, then 10
    (class 3) at 70: two ahead. The other query, nearer still, is not in the gallery.
    """
    rows = rows_of([2, 3, 3, 2, 2], is_query=[1, 1, 0, 0, 0], is_gallery=[0, 0, 1, 1, 1])
    found = measure(f"query_gallery({recalls(1, 2, 3)})", on_a_circle([0, 80, 10, 20, 90]), rows)
    assert found == {"recall_at_1": 0.0, "recall_at_2": 0.5, "recall_at_3": 1.0, "queries": 2}


def test_same_camera_and_distractors_by_hand():
    """As in Market-1501: person 1 is searched for from camera 1.

    At 5 degrees the same person by the same camera: not counted. At 10 a distractor, which counts against. At 15 the
    person by camera 2. At 3 another person by camera 1, which stays in the gallery. So two are ahead.
    """
    rows = rows_of([1, 1, 0, 1, 4], cameras=[1, 1, 1, 2, 1], is_query=[1, 0, 0, 0, 0], is_gallery=[0, 1, 1, 1, 1])
    embeddings = on_a_circle([0, 5, 10, 15, 3])
    assert measure(f"query_gallery({recalls(1, 2, 3)})", embeddings, rows) == {
        "recall_at_1": 0.0,
        "recall_at_2": 0.0,
        "recall_at_3": 1.0,
        "queries": 1,
    }
    without_cameras = measure(
        f"query_gallery({recalls(1, 2)})",
        embeddings,
        rows_of(rows.labels, is_query=rows.is_query, is_gallery=rows.is_gallery),
    )
    assert without_cameras == {"recall_at_1": 0.0, "recall_at_2": 1.0, "queries": 1}


def test_a_query_seen_by_its_own_camera_alone_is_left_out():
    rows = rows_of([1, 1, 2, 2], cameras=[1, 1, 1, 2])
    assert measure("query_gallery", on_a_circle([0, 5, 40, 45]), rows)["queries"] == 2


def test_groups_count_as_cameras_do():
    """Frames of films: the nearest, 1 degree away, is of the query's film. The next of its class is at 30."""
    rows = rows_of([1, 1, 1, 2], groups=[7, 7, 8, 7], is_query=[1, 0, 0, 0])
    embeddings = on_a_circle([0, 1, 30, 20])
    assert measure(f"query_gallery({recalls(1, 2)})", embeddings, rows) == {
        "recall_at_1": 0.0,
        "recall_at_2": 1.0,
        "queries": 1,
    }
    assert measure("self_retrieval", embeddings, rows)["queries"] == 3


def test_rows_without_marks_are_searched_all_against_all():
    random = np.random.default_rng(0)
    embeddings, labels = random.normal(size=(50, 3)), random.integers(0, 9, 50)
    expected = evaluate(embeddings, labels)
    assert measure(f"query_gallery(metrics={METRICS})", embeddings, rows_of(labels)) == expected
    marked = rows_of(labels, is_query=labels < 4, cameras=labels)
    assert measure(f"self_retrieval(metrics={METRICS})", embeddings, marked) == expected


def test_random_gallery_by_hand():
    """Class 1 at 0 and 40 degrees, class 2 at 10 and 100: the result is known for every possible draw.

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
    found = measure(f"random_gallery(draws=10, seed=5, {recalls(1, 2)})", embeddings, rows)
    expected = np.mean([by_gallery[gallery] for gallery in drawn])
    assert found == {"recall_at_1": pytest.approx(expected), "recall_at_2": 1.0, "queries": 2}
    assert measure(f"random_gallery(draws=10, seed=5, {recalls(1, 2)})", embeddings, rows) == found


def test_one_of_each_class_is_drawn_evenly():
    labels = np.array([5, 5, 5, 2, 9, 9])
    marks = np.array([one_of_each(labels, np.random.default_rng(seed)) for seed in range(3000)])
    assert (np.stack([marks[:, labels == label].sum(1) for label in (2, 5, 9)]) == 1).all()
    np.testing.assert_allclose(marks.mean(0), [1 / 3, 1 / 3, 1 / 3, 1, 1 / 2, 1 / 2], atol=0.04)


def test_a_vehicle_of_one_image_is_in_the_gallery_alone():
    found = measure(f"random_gallery({recalls(1)})", np.eye(3)[[0, 0, 1]], rows_of([1, 1, 2]))
    assert found == {"recall_at_1": 1.0, "queries": 1}


@pytest.mark.parametrize("spec", ["query_gallery", "random_gallery", "self_retrieval"])
def test_a_collapsed_embedding_scores_zero(spec):
    rows = rows_of(np.repeat(np.arange(30), 4), is_query=np.arange(120) % 2 == 0, cameras=np.arange(120) % 4)
    assert measure(spec, np.ones((120, 8)), rows)["recall_at_1"] == 0.0


def test_junk_is_removed_and_distractors_are_not():
    """From 0 degrees: junk at 1, a distractor at 2, the person at 3. Junk is not a query either."""
    rows = rows_of([1, -1, 0, 1], is_query=[1, 1, 0, 0])
    embeddings = on_a_circle([0, 1, 2, 3])
    spec = f"query_gallery({recalls(1, 2)}, junk=-1)"
    assert measure(spec, embeddings, rows) == {"recall_at_1": 0.0, "recall_at_2": 1.0, "queries": 1}
    assert measure(spec.replace(", junk=-1", ""), embeddings, rows)["recall_at_2"] == 0.0


def test_junk_of_a_dataset_with_class_names_is_the_class_of_that_name(tmp_path):
    """Tables, folders and archives number their classes from 0, so the class -1 has the label 0."""
    for number in range(4):
        Image.new("RGB", (8, 8), (number, 0, 0)).save(tmp_path / f"{number}.png")
    lines = ["path,label,split,is_query,is_gallery", "0.png,7,test,1,0", "1.png,-1,test,0,1", "2.png,3,test,0,1"]
    (tmp_path / "t.csv").write_text("\n".join([*lines, "3.png,7,test,0,1"]))
    rows = load(f"csv(path='{tmp_path}/t.csv')", test_only=True).test
    assert rows.labels.tolist() == [2, 0, 1, 2]
    spec = f"query_gallery({recalls(1, 2)}, junk=-1)"
    assert measure(spec, on_a_circle([0, 1, 2, 3]), rows) == {"recall_at_1": 0.0, "recall_at_2": 1.0, "queries": 1}
    with pytest.warns(UserWarning, match="junk=0 removes no image, because no class has this name"):
        measure(spec.replace("-1", "0"), on_a_circle([0, 1, 2, 3]), rows)


def test_map_of_market1501_by_hand():
    """From camera 1 at 0 degrees. By similarity: same person and camera (not counted), junk (removed), the person (1),
    a distractor, another person, the person (4), the person (5): (1/1 + 2/4 + 3/5) / 3.
    """
    rows = rows_of(
        [1, 1, -1, 1, 0, 2, 1, 1],
        cameras=[1, 1, 2, 2, 2, 1, 3, 2],
        is_query=[1, 0, 0, 0, 0, 0, 0, 0],
        is_gallery=[0, 1, 1, 1, 1, 1, 1, 1],
    )
    found = measure("query_gallery(metrics=('map', 'cmc_at_1'), junk=-1)", on_a_circle(np.arange(8) * 5), rows)
    assert found == {"map": pytest.approx((1 + 2 / 4 + 3 / 5) / 3), "cmc_at_1": 1.0, "queries": 1}


def test_euclidean_distance_sees_lengths():
    embeddings, rows = np.array([[1.0, 0], [9.0, 0], [2.0, 1], [1.0, 9]]), rows_of([0, 0, 1, 1])
    assert measure("self_retrieval(metrics='recall_at_1')", embeddings, rows)["recall_at_1"] == 0.75
    assert measure("self_retrieval(metrics='mrr', distance='euclidean')", embeddings, rows)["mrr"] == pytest.approx(
        np.mean([1 / 2, 1 / 2, 1 / 3, 1])
    )


@pytest.mark.parametrize(
    "spec, chosen",
    [("self_retrieval", "recall_at_1"), ("self_retrieval(metrics=('nmi', 'map', 'recall_at_2'))", "map")],
)
def test_the_first_metric_that_can_selects_the_best_model(spec, chosen):
    protocol = registry.create("protocol", spec)
    assert protocol.selecting("") == chosen
    assert protocol.with_metrics(("r_precision", "mrr")).selecting("mrr") == "mrr"
    with pytest.raises(ValueError, match="--select_by=nmi must be a metric of the protocol that is measured during"):
        protocol.selecting("nmi")
    with pytest.raises(ValueError, match="it has none, so add recall_at_1"):
        protocol.with_metrics(("nmi",)).selecting("")


def test_bad_input_is_told():
    with pytest.raises(ValueError, match="Unknown protocol 'query_galery'. Did you mean 'query_gallery'"):
        registry.create("protocol", "query_galery")
    with pytest.raises(ValueError, match="needs at least one query with another image of its class"):
        evaluate(np.eye(2), [1, 1], queries=[True, False], gallery=[True, False])


@pytest.mark.parametrize("cameras", [None, np.arange(12) % 3], ids=["all", "cameras"])
def test_queries_of_one_model_in_the_gallery_of_another(cameras):
    random = np.random.default_rng(0)
    labels = np.arange(12) // 4
    queries, gallery = random.normal(size=(2, 12, 3))
    marks = {"is_query": np.arange(12) % 2 == 0, "is_gallery": np.arange(12) != 3}
    rows = rows_of(labels, **marks, **({} if cameras is None else {"cameras": cameras}))
    found = registry.create("protocol", f"query_gallery({recalls(1, 2)})").scores_in_gallery(queries, gallery, rows)
    hits = {1: [], 2: []}
    for query in np.flatnonzero(marks["is_query"]):
        near = []
        for image in np.flatnonzero(marks["is_gallery"]):
            same = labels[image] == labels[query]
            if image == query or (same and cameras is not None and cameras[image] == cameras[query]):
                continue
            x, y = queries[query], gallery[image]
            near.append((x @ y / np.linalg.norm(x) / np.linalg.norm(y), same))
        near.sort(key=lambda each: -each[0])
        for k, of_k in hits.items():
            of_k.append(any(same for _, same in near[:k]))
    assert found.values == {f"recall_at_{k}": pytest.approx(np.mean(of_k)) for k, of_k in hits.items()}
    assert 0 < found.values["recall_at_1"] < 1
