"""Several images pooled into one query, computed by hand and compared with a loop."""

import numpy as np
import pytest

from tests.evaluation.naive_ranks import naive_ranks
from tests.evaluation.ranks.test_positive_ranks import clustered
from tests.evaluation.test_protocols import on_a_circle, rows_of
from tfdml import registry

METRICS = "metrics=('recall_at_1', 'recall_at_3', 'map')"


def scores(spec, embeddings, rows):
    return registry.create("protocol", f"query_gallery({spec})").scores(embeddings, rows)


def test_two_images_of_a_camera_by_hand():
    """Person 1 by camera 1 at 0 and 40 degrees; their mean: at 20. Person 1 by camera 2 is at 22, another at 5 and 35.

    The images themselves find others first: at 5 from 0, and at 35 from 40. By camera 3, person 1 is at 90 degrees,
    where the others are nearer to the gallery's. The largest components are (1, sin 40): at 33, where 35 is nearest.
    """
    rows = rows_of(
        [1, 1, 1, 1, 2, 2], cameras=[1, 1, 3, 2, 2, 2], is_query=[1, 1, 1, 0, 0, 0], is_gallery=[0, 0, 0, 1, 1, 1]
    )
    embeddings = on_a_circle([0, 40, 90, 22, 5, 35])
    # The length does not matter for cosine similarity.
    embeddings[0] *= 9
    each = scores(METRICS, embeddings, rows)
    assert each.queries.tolist() == [0, 1, 2] and each.per_query["recall_at_1"].tolist() == [0, 0, 0]
    for pooling in ("mean", "max"):
        pooled = scores(f"{METRICS}, pooling='{pooling}'", embeddings, rows)
        # The row of each query's first image.
        assert pooled.queries.tolist() == [0, 2]
        assert pooled.per_query["recall_at_1"].tolist() == [pooling == "mean", 0]
        assert pooled.summary()["queries"] == 2


def naive_pools(embeddings, labels, cameras, is_query, pooling, distance):
    """`[(first row, embedding)]` of the queries of each class and camera."""
    pools = {}
    for row in np.flatnonzero(is_query):
        vector = embeddings[row] if distance == "euclidean" else embeddings[row] / np.linalg.norm(embeddings[row])
        pools.setdefault((labels[row], cameras[row]), []).append((row, vector))
    reduce = {"mean": np.mean, "max": np.max}[pooling]
    return [(pool[0][0], reduce([vector for _, vector in pool], axis=0)) for pool in pools.values()]


@pytest.mark.parametrize("distance", ["cosine", "euclidean"])
@pytest.mark.parametrize("pooling", ["mean", "max"])
@pytest.mark.parametrize("kind", ["marked", "all"])
def test_equals_a_loop(kind, pooling, distance):
    embeddings, labels = clustered(rows=200, classes=12)
    random = np.random.default_rng(1)
    cameras, marks = random.integers(0, 4, 200), random.random(200) < 0.5
    is_query, is_gallery = (marks, ~marks) if kind == "marked" else (np.ones(200, bool), np.ones(200, bool))
    pools = naive_pools(embeddings, labels, cameras, is_query, pooling, distance)
    assert len(pools) < is_query.sum()
    firsts = [first for first, _ in pools]
    expected = naive_ranks(
        np.concatenate([embeddings, [vector for _, vector in pools]]),
        np.concatenate([labels, labels[firsts]]),
        queries=np.arange(200 + len(pools)) >= 200,
        gallery=np.concatenate([is_gallery, np.zeros(len(pools), bool)]),
        apart=[np.concatenate([cameras, cameras[firsts]])],
        distance=distance,
    )
    expected = {int(firsts[row - 200]): ranks for row, ranks in expected.items()}
    marked = {"is_query": is_query, "is_gallery": is_gallery} if kind == "marked" else {}
    rows = rows_of(labels, cameras=cameras, **marked)
    found = scores(f"{METRICS}, pooling='{pooling}', distance='{distance}'", embeddings, rows)
    assert found.queries.tolist() == sorted(expected)
    for place, query in enumerate(found.queries):
        ranks = expected[int(query)]
        assert found.per_query["recall_at_3"][place] == (ranks[0] <= 3)
        precisions = [number / rank for number, rank in enumerate(ranks, 1)]
        assert found.per_query["map"][place] == pytest.approx(np.mean(precisions))


def test_one_image_a_camera_changes_nothing():
    embeddings, labels = clustered(rows=100)
    rows = rows_of(labels, cameras=np.arange(100))
    plain, pooled = (scores(f"{METRICS}{more}", embeddings, rows) for more in ("", ", pooling='mean'"))
    assert pooled.queries.tolist() == plain.queries.tolist() and pooled.values == pytest.approx(plain.values)


def test_pooling_with_a_reranking_an_index_and_metrics_of_clusters():
    embeddings, labels = clustered(rows=150)
    rows, some = rows_of(labels, cameras=np.arange(150) % 3, groups=np.arange(150) % 5), "'recall_at_1', 'r_precision'"
    plain = scores(f"metrics=({some}, 'nmi')", embeddings, rows)
    pooled = scores(f"metrics=({some}, 'nmi'), pooling='mean'", embeddings, rows)
    indexed = scores(f"metrics=({some}), pooling='mean', index='ivf(lists=3, probes=3)'", embeddings, rows)
    reranked = scores(f"metrics=({some}), pooling='mean', reranking='query_expansion(k=3)'", embeddings, rows)
    assert plain.values["nmi"] == pooled.values["nmi"] and plain.values["r_precision"] != pooled.values["r_precision"]
    assert indexed.values == pytest.approx({name: pooled.values[name] for name in indexed.values})
    assert reranked.queries.tolist() == pooled.queries.tolist() and reranked.values != indexed.values
    # A query has one camera and one group.
    keys = set(zip(labels, rows.cameras, rows.groups, strict=True))
    assert len(pooled.queries) <= len(keys) < 150


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="have neither cameras nor groups"):
        scores("pooling='mean'", np.eye(4), rows_of([0, 0, 1, 1]))
    rows = rows_of([0, 0, 1, 1], cameras=[0, 1, 0, 1])
    with pytest.raises(ValueError, match="1 of 4 embeddings are not finite. The first is row 2"):
        scores("pooling='max'", np.diag([1, 1, np.inf, 1]), rows)
    with pytest.raises(ValueError, match="No query has one"):
        scores("pooling='max'", np.eye(4), rows_of([0, 0, 1, 1], cameras=[0, 0, 0, 0]))
    nothing = np.zeros(4, bool)
    with pytest.raises(ValueError, match="No query has one"):
        scores("pooling='mean'", np.eye(4), rows_of([0, 0, 1, 1], cameras=[0, 1, 0, 1], is_query=nothing))
