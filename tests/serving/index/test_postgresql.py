"""Indexes, errors and addresses of PostgreSQL."""

import functools

import numpy as np
import psycopg
import pytest

from tests.serving.index.store_places import postgresql, server
from tfdml.serving.index.attributes import table_of_rows
from tfdml.serving.index.stores import engine
from tfdml.serving.index.stores.postgresql import read_address
from tfdml.serving.index.stores.store import StoreError, open_store

MODEL, DIM = "keras-1", 16


def executed(statement, *values):
    with psycopg.connect(server().get_uri(), autocommit=True) as connection:
        found = connection.execute(statement, values)
        return found.fetchall() if found.description else None


def table_of(address):
    return address.rpartition("table=")[2]


@pytest.fixture(scope="module")
def vectors():
    """Around few centers, as embeddings are."""
    random = np.random.default_rng(0)
    found = random.normal(size=(30, DIM))[random.integers(0, 30, 3000)] + 0.4 * random.normal(size=(3000, DIM))
    return (found / np.linalg.norm(found, axis=1, keepdims=True)).astype(np.float32)


def typed(address, type):
    return address.replace("&table", f"&type={type}&table") if type else address


@pytest.mark.parametrize(
    ("kind", "type"),
    [
        ("hnsw(m=16, ef_search=80)", None),
        ("ivf(lists=20, probes=8)", "vector"),
        ("hnsw(m=16, ef_search=80)", "halfvec"),
    ],
)
def test_recall_of_its_indexes_with_and_without_filters(kind, type, vectors, monkeypatch):
    address, rows = typed(postgresql(), type), np.arange(len(vectors))
    with open_store(address, model=MODEL, kind=kind) as store:
        store.add(None, vectors, table_of_rows(list(map(str, rows)), [None] * len(rows), {"row": rows}))
        store.build()
        store.build()
        (definition,) = executed(
            "SELECT indexdef FROM pg_indexes WHERE indexname = %s", f"{table_of(address)}_embedding"
        )
        assert (
            f" {type or 'vector'}_ip_ops" in definition[0]
            and ("m='16'" if "hnsw" in kind else "lists='20'") in definition[0]
        )
        explain = f'EXPLAIN SELECT id FROM "{table_of(address)}" ORDER BY embedding <#> %s::{type or "vector"} LIMIT 10'
        assert "Index Scan" in str(executed(explain, str(vectors[0].tolist())))
        # So that a filter of a tenth goes through the index as well.
        monkeypatch.setattr(engine, "FEW", 100)
        for where, chosen in ((None, rows), ("row < 300", rows[:300]), ("row < 30", rows[:30])):
            found, hits = store.search(vectors[:50], 10, where), 0
            for query, each in zip(vectors[:50], found, strict=True):
                exact = set(chosen[np.argsort(-(vectors[chosen] @ query))[:10]].tolist())
                hits += len(exact & {neighbor.id for neighbor in each})
                similarities = [neighbor.similarity for neighbor in each]
                assert len(each) == 10 and similarities == sorted(similarities, reverse=True)
            assert found.exact == (where == "row < 30") and hits >= (500 if found.exact else 450), (where, hits)
            assert found.matching == len(chosen)


def test_vectors_of_half_precision(vectors):
    sizes, distances = {}, {}
    for type in ("vector", "halfvec"):
        address = typed(postgresql(), type)
        with open_store(address, model=MODEL, metric="euclidean") as store:
            store.add(None, vectors[:50])
            (found,) = store.search(vectors[50:51], 50)
            distances[type] = {each.id: each.similarity for each in found}
        ((sizes[type],),) = executed(f'SELECT avg(pg_column_size(embedding)) FROM "{table_of(address)}"')
        # What is there keeps its type, and another one is refused.
        with open_store(address.replace(f"&type={type}", ""), model=MODEL) as store:
            assert store.add(None, vectors[:1]).tolist() == [50]
        other = {"vector": "halfvec", "halfvec": "vector"}[type]
        with open_store(address.replace(f"type={type}", f"type={other}"), model=MODEL) as store:
            assert f"has type={type}. Received: type={other}" in told(store.count)
    # Beside a header of five bytes.
    assert sizes == {"vector": 5 + 4 * DIM, "halfvec": 5 + 2 * DIM}
    assert distances["halfvec"] == pytest.approx(distances["vector"], abs=1e-3)
    with open_store(typed(postgresql(), "halfvec"), model=MODEL, metric="euclidean") as store:
        assert "out of range for type halfvec" in told(lambda: store.add(None, np.full((1, DIM), 1e5)))


@pytest.mark.parametrize("place", ["me:secret@host/db", "me@host/db?password=secret", "me@host/db?sslpassword=secret"])
def test_a_password_is_refused_and_never_told(place):
    with pytest.raises(ValueError, match="PGPASSWORD or use ~/.pgpass") as caught:
        read_address(f"//{place}")
    assert "secret" not in str(caught.value)


def test_addresses():
    found = read_address("//me@host:5433/db?table=photos&sslmode=require")
    assert found.table == "photos" and found.shown == "postgresql://me@host:5433/db?sslmode=require&table=photos"
    assert "table" not in found.connection and "sslmode=require" in found.connection
    assert "connect_timeout=5" in found.connection
    assert read_address("///db").table == "images"
    halved = read_address("//host/db?type=halfvec&table=photos")
    assert (halved.type, halved.shown) == ("halfvec", "postgresql://host/db?type=halfvec&table=photos")
    assert "halfvec" not in halved.connection
    with pytest.raises(ValueError, match="type must be vector or halfvec. Received: type='half'"):
        read_address("//host/db?type=half")
    for wrong in ("folder", "//host/db?table=a;b", "//host/db?table=" + "a" * 50, '//host/db?table="a"'):
        with pytest.raises(ValueError, match="Expected postgresql://user@host/database"):
            read_address(wrong)


def told(act, error=ValueError):
    with pytest.raises(error) as caught:
        act()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_server_that_is_not_there(tmp_path):
    with open_store(f"postgresql://postgres@/postgres?host={tmp_path}", model=MODEL) as store:
        assert "does not answer" in told(store.count, StoreError)


def test_a_pgvector_that_is_too_old():
    with open_store(postgresql(), model=MODEL) as store:
        store.add(None, np.eye(2, DIM))
    (version,) = executed("SELECT extversion FROM pg_extension WHERE extname = 'vector'")
    executed("UPDATE pg_extension SET extversion = '0.7.4' WHERE extname = 'vector'")
    try:
        with open_store(postgresql(), model=MODEL) as store:
            assert "has pgvector 0.7.4. Expected version 0.8 or later" in told(store.count)
    finally:
        executed("UPDATE pg_extension SET extversion = %s WHERE extname = 'vector'", version[0])


def test_a_database_without_pgvector():
    executed("CREATE DATABASE plain")
    address = postgresql().replace("postgres?", "plain?")
    with open_store(address, model=MODEL) as store:
        assert store.count() == 0
        store.add(None, np.eye(2, DIM))
        assert store.count() == 2


def test_users_with_few_rights():
    address = postgresql()
    table = table_of(address)
    with open_store(address, model=MODEL) as store:
        store.add(None, np.eye(3, DIM))
    for name, rights in (("reader", "SELECT"), ("writer", "SELECT, INSERT, UPDATE, DELETE"), ("nobody", None)):
        executed(f"CREATE ROLE {name} LOGIN")
        if rights:
            executed(f'GRANT {rights} ON "{table}" TO {name}')
            executed(f"GRANT {'SELECT, UPDATE' if name == 'writer' else 'SELECT'} ON tfdml_indexes TO {name}")
    with open_store(address.replace("postgres@", "reader@"), model=MODEL) as store:
        assert len(store.search(np.eye(1, DIM), 2)[0]) == 2
        for act in (lambda: store.add(None, np.eye(1, DIM)), lambda: store.delete([0])):
            assert "permission denied" in told(act)
    with open_store(address.replace("postgres@", "writer@"), model=MODEL) as store:
        store.add(None, np.eye(1, DIM))
        store.delete([0])
        assert store.count() == 3
    with open_store(address.replace("postgres@", "nobody@"), model=MODEL) as store:
        assert "permission denied" in told(store.count)


def test_a_database_that_is_read_only():
    with open_store(postgresql(), model=MODEL) as store:
        store.add(None, np.eye(3, DIM))
        address = store.address
    with open_store(f"{address}&options=-c%20default_transaction_read_only%3Don", model=MODEL) as store:
        assert store.count() == 3
        assert "is read-only" in told(lambda: store.add(None, np.eye(1, DIM)))


def test_another_table_and_another_layout():
    address = postgresql()
    executed(f'CREATE TABLE "{table_of(address)}" (id int)')
    with open_store(address, model=MODEL) as store:
        assert "has a table with this name that is not an index" in told(lambda: store.add(None, np.eye(1, DIM)))
    other = postgresql()
    with open_store(other, model=MODEL) as store:
        store.add(None, np.eye(1, DIM))
        executed("UPDATE tfdml_indexes SET version = 9 WHERE name = %s", table_of(other))
        assert "has the layout version 9. This version of tfdml reads version 1" in told(store.count)
        executed("UPDATE tfdml_indexes SET version = 1 WHERE name = %s", table_of(other))
        executed(f'DROP TABLE "{table_of(other)}"')
        assert "a table no longer exists" in told(lambda: store.search(np.eye(1, DIM)))


@pytest.mark.parametrize(
    "path, label, attributes, what",
    [
        ("/a\0", None, None, "A path"),
        ("/a", "mug\0", None, "A label"),
        ("/a", "mug", {"color": ["red\0"]}, "An attribute of /a"),
        ("/a", "mug", {"color\0": ["red"]}, "The name of an attribute"),
    ],
)
def test_a_text_with_a_zero_byte_is_told(path, label, attributes, what, vectors):
    with open_store(postgresql(), model=MODEL) as store:
        store.add(None, vectors[:1], table_of_rows(["/first"], ["cup"], {"color": ["blue"]}))
        with pytest.raises(
            ValueError, match=f"^{what} contains a zero byte, which PostgreSQL does not allow in text: '"
        ):
            store.add(None, vectors[:1], table_of_rows([path], [label], attributes))
        with pytest.raises(ValueError, match=r"^The filter contains a zero byte, .*: 'red\\x00'"):
            store.search(vectors[:1], 1, "color = 'red\0'")
        assert store.count() == 1


def test_kinds_that_it_has_not():
    with pytest.raises(ValueError, match="^kind=pq is not supported by postgresql://.* Expected flat, hnsw, ivf"):
        open_store(postgresql(), model=MODEL, kind="pq")
    with open_store(postgresql(), model=MODEL, kind="hnsw") as store:
        store.add(None, np.eye(1, 2001))
        store.build()
        assert store.search(np.eye(1, 2001))[0][0].id == 0
    for type, dimension, most in (
        ("vector", 2001, "vector with at most 2,000"),
        (None, 4001, "halfvec with at most 4,000"),
    ):
        with open_store(typed(postgresql(), type), model=MODEL, kind="hnsw") as store:
            # Before a row is loaded.
            assert f"supports a {most} dimensions" in told(functools.partial(store.add, None, np.eye(1, dimension)))
    with open_store(postgresql(), model=MODEL) as store:
        assert store.add(None, np.eye(1, 4001)).tolist() == [0]
