"""Filters take the rows that a comparison in Python takes, searches find the nearest of these, errors have a place."""

import datetime
import re

import faiss
import numpy as np
import pyarrow
import pytest

from tfdml.serving.index import rows as rows_module
from tfdml.serving.index.filters import DEEPEST, filter_of, tokens_of
from tfdml.serving.index.folder import index_of_kind
from tfdml.serving.index.rows import IndexRows
from tfdml.serving.index.stores import folder_store
from tfdml.serving.index.stores.folder_store import Selection

ROWS = [
    {"label": "mug", "price": 12, "weight": 0.5, "sold": True, "taken": datetime.datetime(2024, 5, 1)},
    {"label": "cup", "price": 25, "weight": None, "sold": False, "taken": datetime.datetime(2024, 6, 1, 12, 30)},
    {"label": None, "price": None, "weight": 2.0, "sold": None, "taken": None},
    {"label": "it's", "price": 20, "weight": 0.25, "sold": True, "taken": datetime.datetime(2023, 1, 1)},
]


@pytest.fixture(scope="module")
def rows():
    names = [f"/{place}.jpg" for place in range(len(ROWS))]
    columns = {"id": pyarrow.array(range(len(ROWS))), "path": pyarrow.array(names)}
    columns |= {name: pyarrow.array([row[name] for row in ROWS]) for name in ROWS[0]}
    # As files give texts.
    columns["label"] = columns["label"].dictionary_encode()
    columns["the price"] = columns["`price`"] = columns["price"]
    return IndexRows(np.arange(4), names, columns["label"].to_pylist(), pyarrow.table(columns), np.zeros(4, bool))


@pytest.mark.parametrize(
    "where, expected",
    [
        ("price < 20", lambda row: row["price"] is not None and row["price"] < 20),
        ("20>price", lambda row: row["price"] is not None and row["price"] < 20),
        ("price <= 20.0 AND price >= 20", lambda row: row["price"] == 20),
        ("price != 20", lambda row: row["price"] not in (None, 20)),
        ("not price = 20", lambda row: row["price"] not in (None, 20)),
        ("weight<>2 or price is null", lambda row: row["price"] is None or row["weight"] not in (None, 2.0)),
        ("price > weight", lambda row: None not in (row["price"], row["weight"]) and row["price"] > row["weight"]),
        ("label in ('mug', 'cup') and price < 20", lambda row: row["label"] in ("mug", "cup") and row["price"] < 20),
        ("label not in ('mug')", lambda row: row["label"] not in (None, "mug")),
        ("not label in ('mug')", lambda row: row["label"] not in (None, "mug")),
        ("label == 'it''s' or label == \"it's\"", lambda row: row["label"] == "it's"),
        ("price in (12, 20.0, -3e1)", lambda row: row["price"] in (12, 20)),
        ("weight in (2)", lambda row: row["weight"] == 2),
        ("price is not null and not (sold or price > 100)", lambda row: row["sold"] is False),
        ("sold", lambda row: row["sold"] is True),
        ("sold == false", lambda row: row["sold"] is False),
        ("taken >= '2024-05-01'", lambda row: row["taken"] and row["taken"] >= datetime.datetime(2024, 5, 1)),
        ("taken in ('2024-06-01T14:30+02:00')", lambda row: row["price"] == 25),
        ("label is null or path = '/0.jpg' or id == 1", lambda row: row["label"] in (None, "mug", "cup")),
        ("`the price` < 20", lambda row: row["price"] == 12),
        ("```price``` < 20 and `price` > 1", lambda row: row["price"] == 12),
        ("price < 99999999999999999999999", lambda row: row["price"] is not None),
        ("sold and price < 15 or label = 'cup'", lambda row: row["label"] in ("mug", "cup")),
        ("label < 'm'", lambda row: row["label"] is not None and row["label"] < "m"),
    ],
)
def test_a_filter_takes_what_python_takes(rows, where, expected):
    assert rows.selected(where).tolist() == [bool(expected(row)) for row in ROWS]


NUMBERS = {"views": [5, 2**24 + 1, 2**53 + 1, None], "weight": [1.5, 2.0**24 + 1, 2.0**53, None]}


@pytest.mark.parametrize(
    "where, expected",
    [
        ("views > 1.5e6", [1, 2]),
        ("views < 5.5", [0]),
        ("views <= 99999999999999999999999", [0, 1, 2]),
        ("views in (5, 1.5)", [0]),
        (f"views = {2**53 + 1}", [2]),
        (f"views = {2**53}", []),
        (f"weight < {2**53 + 1}", [0, 1]),
        (f"weight in ({2**53 + 1}, {2**24 + 1})", [1, 2]),
        ("not views > weight", [1, 2]),
        ("views > 1e400", []),
    ],
)
def test_numbers_of_any_size_are_compared(where, expected):
    names = [f"/{place}.jpg" for place in range(4)]
    table = pyarrow.table({"id": range(4), "path": names, "label": names, **NUMBERS})
    mask = IndexRows(np.arange(4), names, names, table, np.zeros(4, bool)).selected(where)
    assert np.flatnonzero(mask).tolist() == expected


@pytest.mark.parametrize(
    "where, problem, place",
    [
        ("prize < 3", "there is no column 'prize', only id, path, label, price", 1),
        ("price <", "expected a column, a number, text in quotes, true or false, but found 'the end'", 8),
        ("price < 3 4", "expected 'and', 'or' or the end, but found 4", 11),
        ("price < 'a'", "price is a number column, so it cannot be compared with a text", 9),
        ("price < label", "price is a number column, but label is a text column", 9),
        ("taken > 'soon'", "expected a time such as '2024-05-01'", 9),
        ("taken > '0001-01-01T00:00+05:00'", "expected a time such as '2024-05-01'", 9),
        ("price < 3 \ud800", "unknown sign", 11),
        ("label", "label is a text column, which is neither true nor false", 1),
        ("3 < 4", "neither side of the comparison is a column", 1),
        ("label in (label)", "but found the column label", 11),
        ("label in ()", "expected a column, a number", 11),
        ("label in ('a'", "expected ')', but found 'the end'", 14),
        ("label = 'a", "a quote is not closed", 9),
        ("__import__('os').system('x')", "unknown sign", 17),
        ("price.real < 3", "unknown sign", 6),
        ("label not 'a'", "expected 'in', but found 'a'", 11),
        ("price is 3", "expected 'null', but found 3", 10),
        ("", "expected a column", 1),
        (DEEPEST * "(" + "sold" + DEEPEST * ")", f"are nested more than {DEEPEST} times", DEEPEST + 1),
        ("\n\nprice <\n", "expected a column", 11),
    ],
)
def test_what_is_wrong_with_a_filter_is_told_with_its_place(rows, where, problem, place):
    with pytest.raises(ValueError, match=re.escape(problem)) as caught:
        rows.selected(where)
    assert f", at character {place}: " in str(caught.value) and "\n" not in str(caught.value)
    str(caught.value).encode()


def test_whole_numbers_are_those_that_were_given():
    numbers = [token.value for token in tokens_of(f"{2**53 + 1} {2**63 - 1} {-(2**63)}")[:-1]]
    assert numbers == [2**53 + 1, 2**63 - 1, -(2**63)]
    assert isinstance(tokens_of(str(2**63))[0].value, float)


def test_a_filter_that_is_no_text_or_too_long(rows):
    with pytest.raises(ValueError, match="A filter must be a string, .* Received: int"):
        rows.selected(3)
    with pytest.raises(ValueError, match="The filter has 2,001 characters. At most 2,000 are allowed"):
        rows.selected("a" * 2001)


def test_columns_that_are_hidden_are_unknown(rows):
    with pytest.raises(ValueError, match="there is no column 'path', only id, label"):
        rows.selected("path < '/5'", hidden=("path",))


def test_texts_that_would_fill_memory_are_not_compared(rows, monkeypatch):
    monkeypatch.setattr(rows_module, "MOST", 9)
    with pytest.raises(ValueError, match="The text in the column label has 10 bytes. A filter can compare at most 9"):
        rows.selected("label == 'cup'")
    assert rows.selected("price == 25").tolist() == [False, True, False, False]


def test_no_text_is_anything_but_a_filter_or_a_valueerror():
    """Random words and signs."""
    parts = ["price", "label", "and", "or", "not", "in", "is", "null", "(", ")", ",", "<", "==", "3", "-1.5e3", "'a'"]
    parts += ["true", "`price`", "'", "#", "\0", "é", "\n"]
    random = np.random.default_rng(0)
    schema = pyarrow.schema({"price": pyarrow.int64(), "label": pyarrow.string()})
    for _ in range(2000):
        text = " ".join(random.choice(parts, random.integers(1, 12)))
        try:
            filter_of(text, {"price": "number", "label": "text"}, schema)
        except ValueError as error:
            assert "\n" not in str(error)


COUNT, DIM, K = 3000, 16, 5
PQ = "pq(lists=20, probes=4, subvectors=8{more})"
KINDS = ["flat", "ivf(lists=20, probes=4)", "hnsw(ef_search=30)", PQ.format(more=""), PQ.format(more=", rescore=4")]
KINDS += ["int8", "int8(rescore=0)", "binary(stored='float32')", "binary(rescore=0)"]


@pytest.fixture(scope="module")
def vectors():
    found = np.random.default_rng(0).normal(size=(COUNT, DIM)).astype(np.float32)
    return found / np.linalg.norm(found, axis=1, keepdims=True)


@pytest.fixture(scope="module", params=KINDS)
def index(request, vectors):
    made = index_of_kind(request.param).of_size(COUNT).create(DIM, faiss.METRIC_INNER_PRODUCT, lambda count: vectors)
    made.add(vectors)
    return made


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.8, 0.1, 0.01, 0.001])
@pytest.mark.few_by_day(12)
def test_a_mask_is_honoured(index, vectors, share, monkeypatch):
    monkeypatch.setattr(folder_store, "ROWS", 50)
    mask = np.random.default_rng(1).random(COUNT) < share
    chosen, queries = Selection.of(mask), vectors[:100]
    products = np.where(mask, queries @ vectors.T, -np.inf)
    best = np.argsort(-products, axis=1)[:, : min(K, mask.sum())]
    similarities, rows = chosen.search(index, queries, K)
    assert rows.shape == best.shape and mask[rows[rows >= 0]].all()
    shared = np.mean([len(set(one) & set(other)) / len(one) for one, other in zip(rows, best, strict=True)])
    if chosen.is_exact(index, K):
        np.testing.assert_array_equal(np.sort(rows), np.sort(best))
        np.testing.assert_allclose(similarities, np.take_along_axis(products, rows, 1), atol=1e-5)
    # An approximate search finds about as many as without a mask.
    everything = np.argsort(-(queries @ vectors.T), axis=1)[:, :K]
    pairs = zip(Selection.of(np.ones(COUNT, bool)).search(index, queries, K)[1], everything, strict=True)
    plain = np.mean([len(set(one) & set(other)) / K for one, other in pairs])
    assert shared >= plain - 0.1
    assert chosen.is_few == (share <= 0.01)


def test_no_row_and_all_rows(index, vectors):
    similarities, rows = Selection.of(np.zeros(COUNT, bool)).search(index, vectors[:3], K)
    assert similarities.shape == rows.shape == (3, 0)
    assert Selection.of(np.ones(COUNT, bool)).mask is None
