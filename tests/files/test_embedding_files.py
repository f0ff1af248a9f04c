"""Embeddings of other software: every format gives what the arrays give, and a broken file gives one clear line."""

import csv

import numpy as np
import pyarrow.parquet
import pytest

from tests.commands import last_json, run
from tfdml.evaluation import evaluate
from tfdml.evaluation.statistics import bootstrap_intervals
from tfdml.files.embeddings import EmbeddingFiles

METRICS = ("recall_at_1", "map_at_r", "nmi")


@pytest.fixture(scope="module")
def arrays():
    random = np.random.default_rng(0)
    labels = random.integers(0, 8, 60)
    embeddings = random.normal(size=(8, 6))[labels] + random.normal(size=(60, 6))
    return embeddings.astype(np.float32), labels


@pytest.mark.slow
def test_the_command_reads_numpy_files(tmp_path, arrays):
    embeddings, labels = arrays
    np.save(tmp_path / "x.npy", np.asfortranarray(embeddings))
    np.save(tmp_path / "y.npy", np.array([f"class {label}" for label in labels]))
    given = [f"--embeddings={tmp_path}/x.npy", f"--labels={tmp_path}/y.npy"]
    given += [f"--metrics={','.join(METRICS)}", "--per_class", f"--per_query={tmp_path}/q.csv", "--bootstrap=classes"]
    found = last_json(run("tfdml.evaluate", *given))
    expected = evaluate(embeddings, labels, METRICS)
    assert {name: found[name] for name in expected} == expected
    assert found["protocol"] == "self_retrieval"
    assert set(found["per_class"]) == {f"class {label}" for label in labels}
    assert sum(each["queries"] for each in found["per_class"].values()) == 60
    with open(tmp_path / "q.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [int(row["row"]) for row in rows] == list(range(60)) and rows[0].keys() == {"row", "recall_at_1", "map_at_r"}
    per_query = {name: np.array([float(row[name]) for row in rows]) for name in ("recall_at_1", "map_at_r")}
    assert np.mean(per_query["map_at_r"]) == pytest.approx(expected["map_at_r"])
    assert found["intervals"] == bootstrap_intervals(per_query, labels)


def test_archives_and_tables_have_columns(tmp_path, arrays):
    embeddings, labels = arrays
    marks = np.arange(60) % 3 == 0
    columns = {"labels": labels, "cameras": np.arange(60) % 4, "is_query": marks, "is_gallery": ~marks}
    np.savez(tmp_path / "x.npz", embeddings=embeddings.astype(np.float16), **columns)
    found = EmbeddingFiles.read(str(tmp_path / "x.npz"))
    assert found.embeddings.dtype == np.float16
    table = pyarrow.table({"embeddings": list(embeddings.astype(np.float16).astype(np.float32)), **columns})
    pyarrow.parquet.write_table(table, tmp_path / "x.parquet")
    other = EmbeddingFiles.read(str(tmp_path / "x.parquet"))
    for name in ("embeddings", *columns):
        np.testing.assert_array_equal(getattr(found, name), columns.get(name, found.embeddings))
        np.testing.assert_array_equal(getattr(other, name), getattr(found, name))


def test_columns_may_be_texts_and_ones_and_zeros(tmp_path):
    columns = {"labels": [0, 0, 1, 1], "cameras": ["b", "a", "b", "c"], "is_query": [1, 0, 0, 1]}
    np.savez(tmp_path / "x.npz", embeddings=np.ones((4, 2)), **columns)
    table = pyarrow.table({"embeddings": [[1.0, 1.0]] * 4, **columns})
    pyarrow.parquet.write_table(table, tmp_path / "x.parquet")
    for name in ("x.npz", "x.parquet"):
        found = EmbeddingFiles.read(str(tmp_path / name))
        assert found.cameras.tolist() == [1, 0, 1, 2]
        assert found.is_query.dtype == bool and found.is_query.tolist() == [True, False, False, True]


def test_labels_of_64_bits_keep_their_names(tmp_path):
    """As signed numbers they would be negative, and -1 is what some protocols leave out."""
    labels = np.array([2**64 - 1, 7, 2**63, 7], np.uint64)
    np.savez(tmp_path / "x.npz", embeddings=np.ones((4, 2)), labels=labels)
    pyarrow.parquet.write_table(
        pyarrow.table({"embeddings": [[1.0, 1.0]] * 4, "labels": labels}), tmp_path / "x.parquet"
    )
    for name in ("x.npz", "x.parquet"):
        found = EmbeddingFiles.read(str(tmp_path / name))
        assert found.labels.tolist() == [2, 0, 1, 0] and found.labels.dtype == np.int64
        assert found.class_names == {0: "7", 1: str(2**63), 2: str(2**64 - 1)}
    np.savez(tmp_path / "x.npz", embeddings=np.ones((4, 2)), labels=labels // 2)
    assert EmbeddingFiles.read(str(tmp_path / "x.npz")).labels.tolist() == (labels // 2).tolist()


def broken_files(folder):
    """File name to what is in it."""
    np.save(folder / "good.npy", np.ones((4, 2), np.float32))
    whole = (folder / "good.npy").read_bytes()
    (folder / "cut.npy").write_bytes(whole[:-5])
    np.savez(folder / "whole.npz", embeddings=np.ones((40, 20)), labels=np.arange(40))
    whole = (folder / "whole.npz").read_bytes()
    (folder / "changed.npz").write_bytes(whole[:900] + b"x" * 20 + whole[920:])
    for name, column in {"numbers": [1.0, 2], "missing": [[1.0], None], "longer": [[1.0], [1.0, 2]]}.items():
        pyarrow.parquet.write_table(pyarrow.table({"embeddings": column, "labels": [0, 0]}), folder / f"{name}.parquet")
    unlabeled = pyarrow.table({"embeddings": [[1.0], [2.0]], "labels": ["a", None]})
    pyarrow.parquet.write_table(unlabeled, folder / "unlabeled.parquet")
    (folder / "cut.parquet").write_bytes((folder / "longer.parquet").read_bytes()[:-20])
    np.save(folder / "labels.npy", [0, 0, 1, 1])
    np.save(folder / "short.npy", [0, 0, 1])
    np.save(folder / "floats.npy", [0.5, 0.5, 1, 1])
    np.savez(folder / "no_labels.npz", embeddings=np.ones((4, 2)))
    np.savez(folder / "camera.npz", embeddings=np.ones((4, 2)), labels=[0, 0, 1, 1], cameras=[0.5, 1, 1, 1])
    np.save(folder / "objects.npy", np.array(["a", "a", "b", "b"], object))
    np.savez(folder / "objects.npz", embeddings=np.ones((1, 2)), labels=np.array(["a"], object))
    np.savez(folder / "counts.npz", embeddings=np.ones((4, 2)), labels=[0, 0, 1, 1], is_query=[0, 1, 2, 0])
    marked = pyarrow.table({"embeddings": [[1.0], [2.0]], "labels": ["a", "b"], "cameras": ["x", None]})
    pyarrow.parquet.write_table(marked, folder / "unmarked.parquet")
    lists = pyarrow.table({"embeddings": [[1.0], [2.0]], "labels": ["a", "b"], "cameras": [[1], [2]]})
    pyarrow.parquet.write_table(lists, folder / "lists.parquet")
    (folder / "x.txt").write_text("1 2")


@pytest.mark.parametrize(
    "embeddings, labels, words",
    [
        ("none.npy", "", "none.npy does not exist. Expected an embedding file or a folder of tfdml.embed."),
        ("cut.npy", "labels.npy", "cut.npy cannot be read"),
        ("good.npy", "", "good.npy needs --labels"),
        (
            "good.npy",
            "short.npy",
            r"short.npy: labels must have the shape [4], one for each embedding. Received: shape (3,)",
        ),
        ("good.npy", "floats.npy", "floats.npy: labels must be integers or strings. Received: float64"),
        ("labels.npy", "labels.npy", r"labels.npy: embeddings must have the shape [N, d]. Received: shape (4,)"),
        ("no_labels.npz", "", "no_labels.npz has no labels. It contains embeddings"),
        ("no_labels.npz", "labels.npy", "no_labels.npz contains the labels. Remove --labels"),
        ("camera.npz", "", "camera.npz: cameras must be integers or strings. Received: type float64"),
        ("counts.npz", "", "is_query must be True and False, or 1 and 0. Received: other numbers"),
        ("good.npy", "objects.npy", "objects.npy contains an array of Python objects. Save strings as a string array"),
        ("objects.npz", "", "objects.npz contains an array of Python objects"),
        ("lists.parquet", "", "lists.parquet: cameras must be integers or strings. Received: type object"),
        ("unmarked.parquet", "", "unmarked.parquet: 1 of 2 values in cameras are missing"),
        ("changed.npz", "", "changed.npz cannot be read"),
        ("cut.parquet", "", "cut.parquet cannot be read"),
        ("numbers.parquet", "", "numbers.parquet: embeddings must be lists of numbers. Received: type double"),
        ("missing.parquet", "", "missing.parquet: 1 of 2 embeddings are missing"),
        ("unlabeled.parquet", "", "unlabeled.parquet: 1 of 2 values in labels are missing"),
        ("longer.parquet", "", "longer.parquet: all embeddings must have the same length. Received: lengths [1, 2]"),
        (
            "x.txt",
            "",
            "x.txt is not an embedding file. Expected a folder, or a file that ends in .npy, .npz or .parquet",
        ),
    ],
)
def test_broken_files_are_named(tmp_path, embeddings, labels, words):
    broken_files(tmp_path)
    with pytest.raises(ValueError) as caught:
        EmbeddingFiles.read(str(tmp_path / embeddings), str(tmp_path / labels) if labels else "")
    assert words in str(caught.value)
