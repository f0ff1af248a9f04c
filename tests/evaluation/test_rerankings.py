"""Rerankings, compared with literal implementations of their definitions."""

import numpy as np
import pytest

from tests.evaluation.naive_ranks import naive_ranks
from tests.evaluation.test_protocols import rows_of
from tfdml import registry
from tfdml.evaluation.queries import RetrievalTask


def example(seed=0, rows=110, classes=12, dim=6):
    random = np.random.default_rng(seed)
    labels = random.integers(0, classes, rows)
    return random.normal(size=(classes, dim))[labels] + 0.9 * random.normal(size=(rows, dim)), labels


def marks(kind, count):
    """Which rows are queries and gallery: all, disjoint, or overlapping."""
    random = np.random.default_rng(7)
    if kind == "all":
        return {}
    queries = random.random(count) < 0.4
    return {"queries": queries, "gallery": ~queries if kind == "apart" else random.random(count) < 0.7}


def unit(vector):
    return vector / np.sqrt(np.sum(vector**2))


def sum_with_neighbors(row, embeddings, gallery, k, alpha):
    """A row plus its k nearest in the gallery, each times its similarity to the power of alpha."""
    own = unit(embeddings[row])
    others = sorted((other for other in gallery if other != row), key=lambda other: -own @ unit(embeddings[other]))
    total = own.copy()
    for other in others[:k]:
        similarity = own @ unit(embeddings[other])
        total += (max(similarity, 0) ** alpha if alpha else 1) * unit(embeddings[other])
    return unit(total)


def sides(name, embeddings, gallery, k, alpha):
    """Embeddings of the queries, followed by embeddings of the gallery."""
    changed = np.array([sum_with_neighbors(row, embeddings, gallery, k, alpha) for row in range(len(embeddings))])
    return (changed, embeddings) if name == "query_expansion" else (embeddings, changed)


def ranks_of_sides(query_side, gallery_side, labels, task):
    """Each row twice: as a query and as a gallery image. Its number identifies the same image."""
    count, everything = len(labels), np.ones(len(labels), bool)
    queries, gallery = (task.get(each, everything) for each in ("queries", "gallery"))
    nothing = np.zeros(count, bool)
    return naive_ranks(
        np.concatenate([query_side, gallery_side]),
        np.tile(labels, 2),
        queries=np.concatenate([queries, nothing]),
        gallery=np.concatenate([nothing, gallery]),
        apart=[np.tile(np.arange(count), 2)],
    )


def found_ranks(spec, embeddings, labels, task, first_only=False):
    found, reranking = {}, registry.create("reranking", spec)
    for block in reranking.ranks(embeddings, RetrievalTask.of(labels, **task), first_only=first_only):
        for row, ranks in zip(block.rows, block.ranks, strict=True):
            found[int(row)] = ranks[ranks > 0].tolist()
    return found


@pytest.mark.parametrize("kind", ["all", "apart", "partly the same"])
@pytest.mark.parametrize(
    "name, k, alpha",
    [
        ("query_expansion", 4, 3.0),
        ("query_expansion", 2, 0.0),
        ("database_augmentation", 3, 0.0),
        ("database_augmentation", 5, 1.5),
    ],
)
def test_sums_with_neighbors_give_the_ranks(name, k, alpha, kind, monkeypatch):
    monkeypatch.setattr("tfdml.evaluation.rerankings.reranking.ROWS", 7)
    embeddings, labels = example()
    task = marks(kind, len(labels))
    gallery = np.flatnonzero(task.get("gallery", np.ones(len(labels))))
    query_side, gallery_side = sides(name, embeddings, gallery, k, alpha)
    expected = ranks_of_sides(query_side, gallery_side, labels, task)
    assert found_ranks(f"{name}(k={k}, alpha={alpha})", embeddings * 3, labels, task) == expected
    assert expected != ranks_of_sides(embeddings, embeddings, labels, task)


def test_a_gallery_smaller_than_k():
    embeddings, labels = np.eye(3) + 0.1, np.array([0, 0, 1])
    task = {"queries": np.array([True, False, False])}
    assert found_ranks("query_expansion(k=9)", embeddings, labels, task) == {0: [2]}
    assert found_ranks("query_expansion(k=9)", embeddings, labels, {"gallery": np.array([True, False, False])}) == {
        1: [1]
    }


@pytest.mark.parametrize("spec", registry.names("reranking"))
def test_a_gallery_of_one_image_and_embeddings_that_are_not_finite(spec):
    task = {"queries": np.array([True, False, True]), "gallery": np.array([False, True, False])}
    assert found_ranks(spec, np.eye(3), np.array([0, 0, 1]), task) == {0: [1]}
    with pytest.raises(ValueError, match="1 of 2 embeddings are not finite. The first is row 1"):
        found_ranks(spec, np.array([[1.0, 2], [np.inf, 1]]), [0, 0], {})


@pytest.mark.parametrize("protocol", ["self_retrieval", "query_gallery", "random_gallery"])
def test_protocols_take_a_reranking(protocol):
    embeddings, labels = example(rows=200)
    metrics = "metrics=('recall_at_1', 'map', 'effective_rank')"
    plain = registry.create("protocol", f"{protocol}({metrics})")(embeddings, rows_of(labels))
    expanded = f"{protocol}({metrics}, reranking='query_expansion(k=3)')"
    found = registry.create("protocol", expanded)(embeddings, rows_of(labels))
    assert found["map"] != plain["map"]
    # Only rank metrics change.
    assert found["effective_rank"] == plain["effective_rank"] and found["queries"] == plain["queries"]
    again = registry.create("protocol", expanded).with_metrics(("map",))(embeddings, rows_of(labels))
    assert again["map"] == found["map"]


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match="Unknown reranking 'query_expansoin'. Did you mean 'query_expansion'"):
        registry.create("protocol", "self_retrieval(reranking='query_expansoin')")
    with pytest.raises(ValueError, match="needs cosine similarity. Received: distance='euclidean'"):
        registry.create("protocol", "self_retrieval(distance='euclidean', reranking='query_expansion')")
