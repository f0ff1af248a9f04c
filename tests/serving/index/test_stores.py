"""The contract of a store, on each of them: what it finds is what comparing with all rows finds."""

import datetime

import numpy as np
import pyarrow
import pytest

import tfdml
from tests.serving.index.store_places import place
from tfdml.serving.index.attributes import table_of_rows
from tfdml.serving.index.filters import filter_of
from tfdml.serving.index.stores.store import is_engine, open_store

# Stands for the hash of a model.
MODEL, DIM, ROWS = "keras-1", 8, 60
STORES = ("folder", "postgresql", "qdrant")


@pytest.fixture(params=STORES)
def address(request, tmp_path):
    return place(request.param, tmp_path)


@pytest.fixture(scope="module")
def vectors():
    found = np.random.default_rng(0).normal(size=(ROWS, DIM)).astype(np.float32)
    return found / np.linalg.norm(found, axis=1, keepdims=True)


def table(rows, names=None):
    """Rows with labels, and attributes of every kind, some of them missing."""
    start = datetime.datetime(2024, 1, 1)
    attributes = {
        "price": [None if row % 7 == 0 else row for row in rows],
        "weight": [row / 4 for row in rows],
        "views": [2**24 + row for row in rows],
        "sold": [None if row % 5 == 0 else row % 2 == 0 for row in rows],
        "taken": [start + datetime.timedelta(hours=6 * row, microseconds=row) for row in rows],
        "the color": ["größe" if row % 3 else "it's \\ %s" for row in rows],
    }
    labels = [None if row % 11 == 0 else ["mug", "cup"][row % 2] for row in rows]
    return table_of_rows(names or [f"/photos/{row}.jpg" for row in rows], labels, attributes)


@pytest.fixture
def store(address, vectors):
    with open_store(address, model=MODEL) as made:
        made.add(range(ROWS), vectors, table(range(ROWS)))
        made.build()
        yield made


def ids_of(found):
    return [[each.id for each in neighbors] for neighbors in found]


def nearest(vectors, queries, rows, k, metric="cosine"):
    rows = np.array(sorted(rows), int)
    scores = [
        vectors[rows] @ query if metric == "cosine" else -np.linalg.norm(vectors[rows] - query, axis=1)
        for query in queries
    ]
    return [rows[np.argsort(-each, kind="stable")[:k]].tolist() for each in scores]


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
def test_neighbors_are_those_of_exact_search(address, vectors, metric):
    given = vectors * (1 if metric == "cosine" else np.arange(1, ROWS + 1)[:, None])
    with open_store(address, model=MODEL, metric=metric) as store:
        assert store.count() == 0 and store.description() is None
        # By their next ids, in two batches.
        assert store.add(None, given[:40]).tolist() == list(range(40))
        assert store.add(None, given[40:]).tolist() == list(range(40, ROWS))
        assert store.count() == ROWS
        found = store.search(given[:9], 5)
        assert ids_of(found) == nearest(given, given[:9], range(ROWS), 5, metric)
        assert (found.matching, found.exact) == (ROWS, True)
        first = found[3][0]
        assert (first.path, first.label) == ("#3", None)
        assert first.similarity == pytest.approx(1 if metric == "cosine" else 0, abs=2e-3)
        last = found[0][4]
        expected = given[0] @ given[last.id] if metric == "cosine" else -np.linalg.norm(given[0] - given[last.id])
        assert last.similarity == pytest.approx(expected, abs=1e-3)
        assert ids_of(store.search(given[:1], 1000)) == nearest(given, given[:1], range(ROWS), ROWS, metric)
    # Opened again, without a word of what it is.
    with open_store(address) as store:
        about = store.description()
        assert (about.model, about.dimension, about.metric, about.kind) == (MODEL, DIM, metric, "flat")
        assert ids_of(store.search(given[:1], 3)) == nearest(given, given[:1], range(ROWS), 3, metric)
        # What is added then is compared as before.
        added = given[:2] + given[2:4]
        added = added / np.linalg.norm(added, axis=1, keepdims=True) * (1 if metric == "cosine" else 2)
        store.add(None, added, table(range(ROWS, ROWS + 2)))
        more = np.concatenate([given, added])
        assert ids_of(store.search(given[:1], 3)) == nearest(more, given[:1], range(ROWS + 2), 3, metric)
        assert store.description().metric == metric


WHERE = [
    "price < 20 and label in ('mug', 'cup')",
    "not price < 20",
    "price != 3 and price <> 4.0",
    "price >= 10.5 or price is null and weight <= 7",
    "price in (3, 4.0, -1)",
    "price not in (3, 4) and not (label = 'cup' or sold)",
    "label is null",
    "label != 'mug'",
    "not (label in ('mug') and price > 30)",
    "sold",
    "not sold",
    "sold == false and weight = 1.25",
    "taken >= '2024-01-05' and not taken > '2024-01-10 06:00'",
    "taken in ('2024-01-02T06:00:00.000005')",
    "`the color` = 'it''s \\ %s'",
    "`the color` not in ('größe') and id != 3",
    "id in (3, 5) or id >= 57 or path = '/photos/9.jpg'",
    "id < 5 and price < 99999999999999999999999",
    "sold is not null and price is null",
    "price > 99",
    "views > 16777230.0",
]


def expected_rows(where):
    whole = table(range(ROWS)).add_column(0, "id", pyarrow.array(range(ROWS)))
    kinds = {"id": "number", "path": "text", "label": "text", "price": "number", "weight": "number"}
    kinds |= {"views": "number", "sold": "boolean", "taken": "time", "the color": "text"}
    return whole.filter(filter_of(where, kinds, whole.schema))["id"].to_pylist()


@pytest.fixture(params=STORES, scope="module")
def filtered(request, vectors, tmp_path_factory):
    """One of each for all filters."""
    with open_store(place(request.param, tmp_path_factory.mktemp("filtered")), model=MODEL) as made:
        made.add(range(ROWS), vectors, table(range(ROWS)))
        yield made


@pytest.mark.parametrize("where", WHERE)
def test_filters(filtered, vectors, where):
    rows = expected_rows(where)
    found = filtered.search(vectors[:2], 7, where)
    assert ids_of(found) == nearest(vectors, vectors[:2], rows, 7)
    assert found.matching == len(rows) == filtered.count(where)


def test_nan_is_a_missing_value(address, vectors):
    prices = pyarrow.array([float("nan"), 30.0, None, 10.0])
    with open_store(address, model=MODEL) as store:
        store.add(None, vectors[:4], table_of_rows(list("abcd"), [None] * 4, {"price": prices}))
        for where, expected in (("not price < 20", {1}), ("price is null", {0, 2}), ("price != 30", {3})):
            assert set(ids_of(store.search(vectors[:1], 4, where))[0]) == expected


@pytest.mark.parametrize("where", ["`the color` < 'h'", "price > weight and price < 20"])
def test_filters_that_qdrant_has_not(filtered, vectors, where):
    if filtered.address.startswith("qdrant"):
        with pytest.raises(
            ValueError, match="Qdrant (cannot order text columns|can only compare a column with a value)"
        ):
            filtered.search(vectors[:2], 7, where)
        return
    assert ids_of(filtered.search(vectors[:2], 7, where)) == nearest(vectors, vectors[:2], expected_rows(where), 7)


def test_wrong_filters_and_hidden_columns(filtered, vectors):
    for where, told in (
        ("prize < 3", "there is no column 'prize'"),
        ("price < 'a'", "price is a number column, so it cannot be compared with a text"),
    ):
        with pytest.raises(ValueError, match=told):
            filtered.search(vectors[:1], 3, where)
    with pytest.raises(ValueError, match="there is no column 'path'"):
        filtered.search(vectors[:1], 3, "path = '/photos/9.jpg'", hidden=("path",))
    # A value is a value, whatever it says.
    assert filtered.search(vectors[:1], 3, "label = 'x'') or true --'").matching == 0


def test_a_batch_that_is_added_again_changes_nothing(store, vectors):
    before = store.search(vectors[:5], 9)
    for part in (slice(0, 30), slice(20, ROWS)):
        rows = range(ROWS)[part]
        assert store.add(rows, vectors[part], table(rows)).tolist() == list(rows)
    assert store.count() == ROWS and store.search(vectors[:5], 9) == before
    with pytest.raises(ValueError, match="has an image with the id 3"):
        store.add([3], vectors[:1], table([70]))
    assert store.count() == ROWS


def test_a_row_of_the_same_path_takes_the_place_of_the_earlier_one(store, vectors):
    (new,) = store.add(None, -vectors[:1], table([3]).set_column(1, "label", pyarrow.array(["new"])))
    assert new == ROWS and store.count() == ROWS
    (found,) = store.search(-vectors[:1], 100)
    assert (found[0].id, found[0].path, found[0].label) == (ROWS, "/photos/3.jpg", "new")
    assert 3 not in {each.id for each in found}
    expected = {4: "/photos/4.jpg", ROWS: "/photos/3.jpg"}
    assert store.find(paths=["/photos/3.jpg", "/photos/4.jpg", "/gone.jpg"]) == expected == store.find([3, 4, ROWS])
    assert store.find([4], ["/photos/3.jpg"]) == expected


def test_deletes(store, vectors):
    store.delete({0, 5, 7})
    left = set(range(ROWS)) - {0, 5, 7}
    assert store.count() == len(left)
    assert ids_of(store.search(vectors[:9], ROWS)) == nearest(vectors, vectors[:9], left, ROWS)
    with pytest.raises(ValueError, match="7 is not in the index .*, so nothing was deleted"):
        store.delete({7, 8})
    assert store.count() == len(left)
    # No row gets the id of one that is gone.
    store.delete({ROWS - 1})
    assert store.add(None, vectors[:1], table([90])).tolist() == [ROWS]
    assert store.add([7], vectors[7:8], table([7])).tolist() == [7]
    assert ids_of(store.search(vectors[7:8], 1)) == [[7]]


def test_unicode_duplicates_and_empty(store, vectors):
    names = ["/фото/ü 'quoted' \"twice\".jpg", "/写真/\\n;--.jpg", "/a,b\t.jpg"]
    given = table_of_rows(names, ["größe", "", "写真"], {"the color": ["\\N", "", "写"]})
    ids = store.add(None, np.repeat(vectors[:1], 3, 0), given)
    (found,) = store.search(vectors[:1], 4)
    assert {each.path: each.label for each in found if each.id in ids} == dict(
        zip(names, ["größe", "", "写真"], strict=True)
    )
    assert {round(each.similarity, 5) for each in found} == {1.0} and len({each.id for each in found}) == 4
    assert ids_of(store.search(vectors[:1], 9, "label = 'größe' or `the color` = '写'")) in (
        [[ids[0], ids[2]]],
        [[ids[2], ids[0]]],
    )
    assert store.search(vectors[:2], 3, "label = 'nothing'") == [[], []]
    assert store.search(vectors[:0], 3) == []
    assert store.add(None, np.zeros((0, DIM)), table([])).tolist() == [] and store.count() == ROWS + 3
    with pytest.raises(ValueError, match="Every path must be unique"):
        store.add(None, vectors[:2], table([71, 71]))
    # Of no length: similar to nothing.
    store.add(None, np.zeros((1, DIM)), table_of_rows(["zero"], [None], None))
    assert store.search(vectors[:1], 1, "path = 'zero'")[0][0].similarity == 0


def test_what_is_refused(store, address, vectors):
    with pytest.raises(ValueError, match=f"vectors with {DIM} dimensions. Received: vectors with 5"):
        store.add(None, np.ones((1, 5)), table([70]))
    with pytest.raises(ValueError, match=rf"Vectors must have the shape \[count, {DIM}\]. Received: shape \[1, 5\]"):
        store.search(np.ones((1, 5)), 3)
    with pytest.raises(ValueError, match="k must be at least 1"):
        store.search(vectors[:1], 0)
    with pytest.raises(ValueError, match="NaN or infinite"):
        store.add(None, np.full((1, DIM), np.nan), table([70]))
    with pytest.raises(ValueError, match="The column price of the index is a number column. Received: a text"):
        store.add(None, vectors[:1], table_of_rows(["new"], [None], {"price": ["cheap"]}))
    assert store.count() == ROWS
    store.close()
    for about, told in (
        ({"model": "keras-another"}, "was made with another model"),
        ({"kind": "hnsw"}, "has kind=flat"),
    ):
        with open_store(address, **about) as other:
            with pytest.raises(ValueError, match=told):
                other.add(None, vectors[:1], table([70]))
            if is_engine(address):
                with pytest.raises(ValueError, match=told):
                    other.search(vectors[:1])


def test_the_index_object(address, vectors):
    with tfdml.Index(store=address) as index:
        ids = index.add(vectors=vectors, labels=np.arange(ROWS) % 3, attributes={"price": np.arange(ROWS)})
        found = index.search(vectors=vectors[:3], k=4, where="price < 30")
        assert ids_of(found) == nearest(vectors, vectors[:3], range(30), 4) and found.matching == 30
        index.delete(ids[:2])
        with pytest.raises(ValueError, match="has an image with the id 7"):
            index.add(vectors=vectors[:1], ids=[7])
        assert len(index) == ROWS - 2
    with tfdml.Index.open(address) as index:
        assert len(index) == ROWS - 2 and index.search(vectors=vectors[5:6], k=1)[0][0].id == 5
        assert index.add(vectors=vectors[:1]).tolist() == [ROWS]
        with pytest.raises(ValueError, match="has no model"):
            index.search("query.jpg")


def test_a_store_that_is_not_there_yet(address, vectors):
    with open_store(address, model=MODEL) as store:
        assert store.count() == 0 and store.find([1], ["a"]) == {}
    with pytest.raises(ValueError, match="has no images. Add some first|is not a tfdml index"):
        tfdml.Index.open(address)
