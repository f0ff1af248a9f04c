"""Ranks of positives, compared with sorted lists, depend on nothing but the embeddings."""

import numpy as np
import pytest
import tensorflow as tf

from tests.evaluation.naive_ranks import naive_ranks
from tfdml.evaluation.metrics import metric_of
from tfdml.evaluation.queries import RetrievalTask
from tfdml.evaluation.ranks import counts as counts_module
from tfdml.evaluation.ranks import ranks as module
from tfdml.evaluation.ranks.counts import FloatCounts
from tfdml.evaluation.ranks.ranks import positive_ranks


def ranks_of(embeddings, labels, *, distance="cosine", first_only=False, memory=2**27, **task):
    found = {}
    for block in positive_ranks(
        embeddings, RetrievalTask.of(labels, **task), distance=distance, first_only=first_only, memory=memory
    ):
        for row, positives, ranks in zip(block.rows, block.positives, block.ranks, strict=True):
            found[int(row)] = ranks[ranks > 0].tolist()
            assert first_only or len(found[int(row)]) == positives
    return found


def clustered(rows=150, classes=12, dim=6, seed=0, noise=0.8):
    random = np.random.default_rng(seed)
    labels = random.integers(0, classes, rows) * 1000 - 7
    centers = random.normal(size=(classes, dim))
    return centers[(labels + 7) // 1000] + noise * random.normal(size=(rows, dim)), labels


@pytest.mark.parametrize("distance", ["cosine", "euclidean"])
@pytest.mark.parametrize("seed, classes, keys", [(0, 12, 0), (1, 60, 1), (2, 5, 2), (3, 3, 0)])
def test_equals_sorted_lists(distance, seed, classes, keys):
    embeddings, labels = clustered(classes=classes, seed=seed)
    random = np.random.default_rng(seed)
    task = {name: random.random(len(labels)) < 0.7 for name in ("queries", "gallery")}
    task["apart"] = [random.integers(0, 4, len(labels)) for _ in range(keys)]
    expected = naive_ranks(embeddings, labels, distance=distance, **task)
    assert ranks_of(embeddings, labels, distance=distance, **task) == expected
    first = {query: ranks[:1] for query, ranks in expected.items()}
    assert ranks_of(embeddings, labels, distance=distance, first_only=True, **task) == first


def euclidean(kind):
    """Embeddings that are far from the origin, or with outliers, and their labels."""
    embeddings, labels = clustered(rows=300, classes=40, dim=24)
    if kind == "outlier":
        embeddings[7] *= 300
    if kind == "extreme outlier":
        embeddings[7] *= 1e12
    if kind == "lengths":
        embeddings *= 10.0 ** np.random.default_rng(1).uniform(-3, 3, (300, 1))
    return embeddings + {"offset": 300, "large offset": 1e4}.get(kind, 0), labels


FAR = ["offset", "large offset", "outlier", "extreme outlier", "lengths"]


@pytest.mark.parametrize("kind", FAR)
def test_euclidean_distances_depend_neither_on_the_origin_nor_on_outliers(kind):
    embeddings, labels = euclidean(kind)
    expected = naive_ranks(embeddings, labels, distance="euclidean")
    assert ranks_of(embeddings, labels, distance="euclidean") == expected
    if "offset" in kind:
        assert ranks_of(euclidean("none")[0], labels, distance="euclidean") == expected


@pytest.mark.parametrize("kind", FAR)
def test_nothing_but_the_embeddings_decides_euclidean_ranks(kind, monkeypatch, tmp_path):
    embeddings, labels = euclidean(kind)
    whole = ranks_of(embeddings, labels, distance="euclidean")
    assert ranks_of(embeddings, labels, distance="euclidean", memory=1) == whole
    shuffled = np.random.default_rng(1).permutation(300)
    again = ranks_of(embeddings[shuffled], labels[shuffled], distance="euclidean")
    assert {int(shuffled[row]): ranks for row, ranks in again.items()} == whole
    np.save(tmp_path / "embeddings.npy", embeddings)
    mapped = np.load(tmp_path / "embeddings.npy", mmap_mode="r")
    assert ranks_of(mapped, labels, distance="euclidean") == whole
    for name, value in {"TILE": 70, "TRIAL": 9, "MOST_LEFT": 0.0}.items():
        monkeypatch.setattr(module, name, value)
    assert ranks_of(embeddings, labels, distance="euclidean") == whole


def near_ties(kind, random):
    """Embeddings with similarities that float32 products cannot distinguish, and their labels."""
    labels = np.repeat(np.arange(40), 5)
    if kind == "collapsed":
        return np.tile(random.normal(size=(1, 33)), (200, 1)), labels
    if kind == "nearly collapsed":
        return np.ones((200, 33)) + 1e-7 * random.normal(size=(200, 33)), labels
    if kind == "duplicates":
        return random.normal(size=(20, 33))[random.integers(0, 20, 200)], labels
    if kind == "scaled duplicates":
        return random.normal(size=(20, 33))[random.integers(0, 20, 200)] * random.uniform(1e-3, 1e3, (200, 1)), labels
    # Around the end of a tie, in steps smaller than float32's precision.
    base = np.zeros((200, 33))
    base[:, 0], base[:, 1] = 1.0, 1e-3 * random.integers(0, 3, 200)
    base[:, 2] = 1e-5 * random.integers(0, 40, 200)
    return base, labels


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["collapsed", "nearly collapsed", "duplicates", "scaled duplicates", "steps"])
def test_nothing_but_the_embeddings_decides_near_ties(kind, monkeypatch):
    embeddings, labels = near_ties(kind, np.random.default_rng(0))
    whole = ranks_of(embeddings, labels)
    assert ranks_of(embeddings, labels, memory=1) == whole
    shuffled = np.random.default_rng(1).permutation(200)
    again = ranks_of(embeddings[shuffled], labels[shuffled])
    assert {int(shuffled[row]): ranks for row, ranks in again.items()} == whole
    monkeypatch.setattr(module, "TILE", 7)
    assert ranks_of(embeddings, labels) == whole
    monkeypatch.setattr(counts_module, "SORTED_FROM", 0)
    assert ranks_of(embeddings, labels) == whole
    monkeypatch.setattr(counts_module, "FEW_THRESHOLDS", 0.0)
    assert ranks_of(embeddings, labels) == whole


@pytest.mark.parametrize("kind", ["collapsed", "duplicates", "scaled duplicates"])
def test_ties_count_against_the_model(kind):
    embeddings, labels = near_ties(kind, np.random.default_rng(0))
    assert ranks_of(embeddings, labels) == naive_ranks(embeddings, labels)
    if kind == "collapsed":
        assert ranks_of(embeddings, labels)[0] == [196, 197, 198, 199]


def test_wrong_products_within_the_bound_change_nothing(monkeypatch):
    """Simulates another library's rounding: each approximate similarity moves by most of the error bound."""
    embeddings, labels = clustered(rows=300, classes=20, dim=3)
    whole = ranks_of(embeddings, labels)
    exact = FloatCounts.similarities
    random = np.random.default_rng(0)

    def rounded(counts, vectors, tile, out):
        exact(counts, vectors, tile, out)
        out += 0.9 * counts.errors(vectors)[:, None] * random.choice([-1, 1], out.shape)
        return out

    monkeypatch.setattr(FloatCounts, "similarities", rounded)
    assert ranks_of(embeddings, labels) == whole


@pytest.mark.parametrize("devices", [1, 2, 150])
def test_products_of_devices_give_the_same(monkeypatch, devices):
    embeddings, labels = clustered(rows=100, dim=33)
    whole, before = ranks_of(embeddings, labels), tf.config.experimental.tensor_float_32_execution_enabled()
    used = []
    monkeypatch.setattr(counts_module, "gpus", lambda: used.append("devices") or ["/CPU:0"] * devices)
    monkeypatch.setattr(module, "TILE", 40)
    assert ranks_of(embeddings, labels) == whole and used
    assert tf.config.experimental.tensor_float_32_execution_enabled() == before


def test_memory_mapped_embeddings_give_the_same(tmp_path):
    embeddings, labels = clustered()
    np.save(tmp_path / "embeddings.npy", embeddings.astype(np.float16))
    mapped = np.load(tmp_path / "embeddings.npy", mmap_mode="r")
    assert ranks_of(mapped, labels) == ranks_of(np.asfortranarray(embeddings.astype(np.float16)), labels)


def test_lengths_of_all_sizes():
    embeddings, labels = clustered()
    scales = 10.0 ** np.random.default_rng(0).integers(-200, 200, (len(labels), 1))
    assert ranks_of(embeddings * scales, labels) == ranks_of(embeddings, labels)
    embeddings[:3] = 0.0
    assert ranks_of(embeddings, labels) == naive_ranks(embeddings, labels)


def test_bad_tasks_are_named():
    with pytest.raises(ValueError, match=r"1 of 3 labels are missing. The first is in row 2"):
        RetrievalTask.of([1, 1, np.nan])
    with pytest.raises(ValueError, match=r"one boolean for each of the 3 rows. Received: shape \(2,\)"):
        RetrievalTask.of([1, 1, 2], queries=[True, False])
    with pytest.raises(ValueError, match=r"one value for each of the 3 rows. Received: shape \(2,\)"):
        RetrievalTask.of([1, 1, 2], apart=[[1, 2]])


@pytest.mark.parametrize("spec", ["map_at_r", "map", "map(trapezoid=True)"])
def test_values_of_queries_do_not_depend_on_the_others_of_their_block(spec):
    random = np.random.default_rng(0)
    # Classes of 2 to 90 images, so that the ranks of some are padded with many zeros.
    labels = np.repeat(np.arange(20), random.integers(2, 90, 20))
    embeddings = random.normal(size=(20, 6))[labels] + 0.8 * random.normal(size=(len(labels), 6))
    metric, found = metric_of(spec), []
    for memory in (1, 2**12, 2**27):
        blocks = positive_ranks(embeddings, RetrievalTask.of(labels), memory=memory)
        found.append(np.concatenate([metric.per_query(ranks) for ranks in blocks]).tobytes())
    assert found[0] == found[1] == found[2]
