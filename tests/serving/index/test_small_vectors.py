"""Indexes of int8, binary and product-quantized vectors, which compare the best candidates again."""

import faiss
import numpy as np
import psycopg
import pytest

import tfdml
from tests.evaluation.ranks.test_positive_ranks import clustered
from tests.serving.index.store_places import place, server
from tfdml.evaluation import evaluate
from tfdml.serving.index.attributes import table_of_rows
from tfdml.serving.index.folder import IndexFolder, index_of_kind
from tfdml.serving.index.stores import engine
from tfdml.serving.index.stores.folder_store import FolderStore, Selection
from tfdml.serving.index.stores.qdrant import search_of
from tfdml.serving.index.stores.store import open_store

ROWS, DIM, K = 400, 24, 5
COMPRESSED = ("int8", "binary", "pq(lists=4, probes=4")


def spec(kind, rescore, stored="float16"):
    return f"{kind}{', ' if '(' in kind else '('}rescore={rescore}, stored='{stored}')"


@pytest.fixture(scope="module")
def vectors():
    """Of which no dimension has the mean 0, as after a ReLU, and of different lengths."""
    return np.random.default_rng(0).exponential(size=(ROWS, DIM)).astype(np.float32)


def filled(kind, folder, vectors, metric="cosine"):
    store = open_store(str(folder / "index"), model="keras-1", kind=kind, metric=metric)
    store.add(None, vectors)
    return store


def exact(vectors, queries, metric, rows=None):
    """Similarities, and the nearest K of some rows, by a comparison with each."""
    found = [
        [
            query @ row / np.linalg.norm(query) / np.linalg.norm(row)
            if metric == "cosine"
            else -np.linalg.norm(query - row)
            for row in vectors
        ]
        for query in np.float64(queries)
    ]
    chosen = np.arange(len(vectors)) if rows is None else rows
    order = [chosen[np.argsort(-np.array(each)[chosen], kind="stable")[:K]].tolist() for each in found]
    return np.array(found), order


def ids_of(found):
    return [[each.id for each in some] for some in found]


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
@pytest.mark.parametrize("kind", COMPRESSED)
def test_rescoring_all_rows_is_exact(kind, metric, vectors, tmp_path):
    queries = vectors[:20] + 0.05
    similarities, best = exact(vectors, queries, metric)
    with filled(spec(kind, ROWS, "float32"), tmp_path, vectors, metric) as store:
        found = store.search(queries, K)
        assert ids_of(found) == best and found.exact
        for row, neighbors in enumerate(found):
            expected = [similarities[row, each.id] for each in neighbors]
            assert [each.similarity for each in neighbors] == pytest.approx(expected, abs=1e-5)
        assert ids_of(store.search(queries, ROWS + 7)) == ids_of(store.search(queries, ROWS))


@pytest.mark.parametrize("kind", COMPRESSED)
def test_rescoring_finds_more_and_similarities_are_those_of_the_vectors(kind, vectors, tmp_path):
    similarities, best = exact(vectors, vectors[:100], "cosine")
    recalls = []
    for rescore in (0, 2, 16):
        with filled(spec(kind, rescore), tmp_path / str(rescore), vectors) as store:
            found = store.search(vectors[:100], K)
        hits = [len(set(one) & set(other)) for one, other in zip(ids_of(found), best, strict=True)]
        recalls.append(np.mean(hits) / K)
        assert not found.exact
        errors = [abs(each.similarity - similarities[row, each.id]) for row, some in enumerate(found) for each in some]
        # Of half precision, or of the compressed vectors.
        assert max(errors) < 2e-3 if rescore else max(errors) > 2e-3
    assert recalls[0] < recalls[1] <= recalls[2] and recalls[2] > 0.9


@pytest.mark.parametrize("kind", COMPRESSED)
def test_filters_of_few_rows_compare_all_stored_vectors(kind, vectors, tmp_path):
    few = np.arange(0, ROWS, 7)
    with filled(spec(kind, 1, "float32"), tmp_path, vectors) as store:
        found = store.search(vectors[:30], K, f"id in ({', '.join(map(str, few))})")
        assert ids_of(found) == exact(vectors, vectors[:30], "cosine", few)[1]
        assert found.exact and found.matching == len(few)


@pytest.mark.parametrize("kind", COMPRESSED)
def test_rows_are_added_deleted_and_erased(kind, vectors, tmp_path):
    with filled(spec(kind, ROWS), tmp_path, vectors[:300]) as store:
        first = ids_of(store.search(vectors[:300], 1))
        assert first == [[row] for row in range(300)]
        # The files of the first index stay open while a new one is written.
        store.add(None, vectors[300:])
        assert ids_of(store.search(vectors, 1)) == [[row] for row in range(ROWS)]
        store.delete({0, 399})
        for _ in range(2):
            found = ids_of(store.search(vectors, 1))
            assert found[1:399] == [[row] for row in range(1, 399)] and found[0] != [0] and found[399] != [399]
            store.compact()
        assert store.count() == ROWS - 2


def test_what_is_stored_per_row(vectors, tmp_path):
    sizes = {}
    for kind in ("flat", *(spec(each, rescore) for each in ("int8", "binary") for rescore in (0, 4))):
        with filled(kind, tmp_path / kind[:20].replace("(", "-"), vectors):
            pass
        folder = IndexFolder(tmp_path / kind[:20].replace("(", "-") / "index")
        index = folder.read_index(folder.manifest())
        faiss.write_index(index, str(tmp_path / "with.faiss"))
        with_rows = (tmp_path / "with.faiss").stat().st_size
        index.reset()
        faiss.write_index(index, str(tmp_path / "without.faiss"))
        sizes[kind] = (with_rows - (tmp_path / "without.faiss").stat().st_size) / ROWS
    assert list(sizes.values()) == [4 * DIM, DIM, DIM + 2 * DIM, DIM / 8 + 8, DIM / 8 + 8 + 2 * DIM]


def test_an_index_without_its_stored_vectors_is_told(vectors, tmp_path):
    with filled("int8", tmp_path / "with", vectors) as store, filled("int8(rescore=0)", tmp_path / "without", vectors):
        pass
    other = IndexFolder(tmp_path / "without" / "index")
    manifest = {**other.manifest(), "spec": "int8(rescore=4)"}
    with pytest.raises(ValueError, match="index-0.faiss has no stored vectors to rescore with, but .* kind=int8"):
        other.read_index(manifest)
    with pytest.raises(ValueError, match="has stored vectors, but its manifest has kind=int8.rescore=0."):
        store.folder.read_index({**store.folder.manifest(), "spec": "int8(rescore=0)"})


def test_vectors_that_are_too_large_for_half_precision(tmp_path):
    large = np.random.default_rng(0).random((30, 4), np.float32) * 1e5
    large[0] = 1e5
    with pytest.raises(
        ValueError, match="contains 100000, but the largest number of float16 is 65504. Use stored='float32'"
    ):
        filled("int8", tmp_path / "half", large, "euclidean")
    with filled("int8(stored='float32')", tmp_path / "full", large, "euclidean") as store:
        assert store.search(large[:1], 1)[0][0].similarity == 0


def test_wrong_arguments():
    for kind, told in (
        ("int8(rescore=-1)", "expects rescore to be an integer of 0 or more"),
        ("binary(stored='int8')", "expects stored to be .*'float16'.*'float32'"),
    ):
        with pytest.raises(ValueError, match=told):
            index_of_kind(kind)


@pytest.mark.parametrize("dim", [1, 3, 13, 200])
@pytest.mark.parametrize("kind", ["int8", "binary"])
def test_any_dimension_and_few_rows(kind, dim):
    found = np.random.default_rng(1).normal(size=(7, dim)).astype(np.float32)
    with tfdml.Index(kind=kind, metric="euclidean") as index:
        index.add(vectors=found)
        assert [each[0].id for each in index.search(vectors=found, k=2)] == list(range(7))
        assert len(index.search(vectors=found, k=50)[0]) == len(index)


def test_evaluation_with_rescoring():
    embeddings, labels = clustered(rows=300)
    expected = evaluate(embeddings, labels)
    for kind in ("int8(rescore=20)", "binary(rescore=300)", "pq(rescore=300)"):
        found = evaluate(embeddings, labels, "recall_at_1", index=kind)
        assert found["recall_at_1"] == pytest.approx(expected["recall_at_1"]) and found["index_recall"] == 1.0


def test_a_search_reads_stored_vectors_from_the_file(vectors, tmp_path, monkeypatch):
    with filled("binary", tmp_path, vectors):
        pass
    flags, read = [], faiss.read_index
    monkeypatch.setattr(faiss, "read_index", lambda path, flag: flags.append(flag) or read(path, flag))
    with FolderStore(str(tmp_path / "index")) as store:
        assert ids_of(store.search(vectors[:3], 1)) == [[0], [1], [2]]
        store.add(None, vectors[:1] + 1)
    # Nothing can be added to vectors in a file.
    assert [bool(flag & faiss.IO_FLAG_MMAP_IFC) for flag in flags] == [True, False]
    assert Selection.of(np.ones(3, bool)).is_exact(faiss.IndexFlatL2(2), 1)


@pytest.fixture(scope="module")
def centered(vectors):
    return vectors - vectors.mean(axis=0)


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
@pytest.mark.parametrize(("name", "kind"), [("postgresql", "binary"), ("qdrant", "binary"), ("qdrant", "int8")])
@pytest.mark.few_by_day(2)
def test_databases_rescore_and_filter(name, kind, metric, centered, tmp_path, monkeypatch):
    monkeypatch.setattr(engine, "FEW", 20)
    queries = centered[:20]
    similarities, best = exact(centered, queries, metric)
    with open_store(place(name, tmp_path), model="keras-1", kind=spec(kind, 80, "float32"), metric=metric) as store:
        store.add(None, centered, table_of_rows(list(map(str, range(ROWS))), [None] * ROWS, {"row": range(ROWS)}))
        store.build()
        found = store.search(queries, K)
        # All of them are candidates.
        assert ids_of(found) == best and not found.exact
        expected = [similarities[row, each.id] for row, some in enumerate(found) for each in some]
        assert [each.similarity for some in found for each in some] == pytest.approx(expected, abs=1e-5)
        for count in (200, 10):
            found = store.search(queries, K, f"row < {count}")
            assert ids_of(found) == exact(centered, queries, metric, np.arange(count))[1]
            assert found.matching == count and found.exact == (count == 10)


def test_postgresql_searches_an_index_of_bits(centered):
    for stored, type in (("float16", "halfvec"), ("float32", "vector")):
        address, kind = place("postgresql", None), f"binary(rescore=2, stored={stored!r})"
        with open_store(address, model="keras-1", kind=kind) as store:
            store.add(None, centered)
            store.build()
            table = address.rpartition("table=")[2]
            with psycopg.connect(server().get_uri(), autocommit=True) as connection:
                ((made,),) = connection.execute(
                    "SELECT indexdef FROM pg_indexes WHERE indexname = %s", [f"{table}_embedding"]
                )
                assert f"((binary_quantize(embedding))::bit({DIM})) bit_hamming_ops" in made
                signs = f"binary_quantize(embedding)::bit({DIM})"
                query = f"binary_quantize('{centered[0].tolist()}'::{type})::bit({DIM})"
                connection.execute("SET enable_seqscan = off")
                plan = connection.execute(f'EXPLAIN SELECT id FROM "{table}" ORDER BY {signs} <~> {query} LIMIT 9')
                assert "Index Scan" in str(plan.fetchall())
            found = store.search(centered[:50], K)
            best = exact(centered, centered[:50], "cosine")[1]
            # Candidates of which many are right, unlike with all of them.
            hits = [len(set(one) & set(other)) for one, other in zip(ids_of(found), best, strict=True)]
            assert 0.25 < np.mean(hits) / K < 1


def test_what_qdrant_is_asked_for(tmp_path):
    """Its client's folder compares with all points, so this checks what a server would get."""
    for kind, config in (("binary", "BinaryQuantization"), ("int8(stored='float32')", "ScalarQuantization")):
        with open_store(place("qdrant", tmp_path), model="keras-1", kind=kind) as store:
            store.add(None, np.eye(2, 8))
            made = store._call("get_collection", collection_name="images").config.params.vectors
            assert type(made.quantization_config).__name__ == config and made.on_disk
            assert made.datatype.value == ("float16" if kind == "binary" else "float32") and made.hnsw_config.m == 32
    asked = search_of(index_of_kind("int8(rescore=6)"), 50, exact=False)
    assert asked.quantization.rescore and asked.quantization.oversampling == 6 and asked.hnsw_ef == 300
    asked = search_of(index_of_kind("binary(rescore=0)"), 5, exact=False)
    assert not asked.quantization.rescore and asked.quantization.oversampling == 1 and asked.hnsw_ef == 100
    asked = search_of(index_of_kind("binary"), 5, exact=True)
    assert asked.exact and asked.quantization.ignore
    assert search_of(index_of_kind("flat"), 5, exact=True).quantization is None
