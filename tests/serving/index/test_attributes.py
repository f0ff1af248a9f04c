"""Tables of attributes: types of columns, rows by path, and what is wrong with a table."""

import datetime
import os

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from tfdml.serving.index.attributes import attributes_of, joined, read_attributes
from tfdml.serving.index.rows import IndexRows


def test_columns_of_a_csv_file_get_the_type_of_all_their_values(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = ["path,label,n,price,sold,taken,code", "b.jpg,x,1,2.5,true,2024-05-01,7a", "a.jpg,,,,,,"]
    (tmp_path / "t.csv").write_text("\n".join(lines))
    paths = [os.path.abspath("a.jpg"), os.path.abspath("b.jpg")]
    assert read_attributes("t.csv", paths).to_pydict() == {
        "path": paths,
        "n": [None, 1],
        "price": [None, 2.5],
        "sold": [None, True],
        "taken": [None, datetime.datetime(2024, 5, 1)],
        "code": [None, "7a"],
    }


def test_columns_that_are_not_used_are_told(tmp_path, caplog):
    columns = {
        "path": ["/a", "/b"],
        "label": ["x", "y"],
        "n": [1, None],
        "note": [None, "late"],
        "nan": [float("nan")] * 2,
    }
    pyarrow.parquet.write_table(pyarrow.table(columns), tmp_path / "t.parquet")
    (tmp_path / "t.csv").write_text("path,label,n,note,nan\n/a,x,1,,\n/b,y,,late,nan\n")
    for file in (tmp_path / "t.parquet", tmp_path / "t.csv"):
        caplog.clear()
        assert set(read_attributes(file, ["/a"]).column_names) == {"path", "n"}
        label, empty = (record.getMessage() for record in caplog.records)
        assert label == f"The column label of {file} is ignored, because labels come from the images or the embeddings."
        assert empty == f"{file} has no values for these images in the columns note, nan, which are not added."
        caplog.clear()
        assert set(read_attributes(file, ["/b"]).column_names) == {"path", "note"}
    (tmp_path / "t.csv").write_text("path,n\n/a,1\n")
    caplog.clear()
    assert read_attributes(tmp_path / "t.csv", ["/a"]).column_names == ["path", "n"] and not caplog.records


@pytest.mark.parametrize(
    "times",
    [
        ["2024-05-01T12:00:00Z", "2024-05-02 01:30:00.25Z"],
        ["2024-05-01T14:00+02:00", "2024-05-01T20:30:00.25-0500"],
        ["2024-05-01T14+02", "2024-05-02 01:30:00.25"],
        ["2024-05-01 12:00:00", "2024-05-02T01:30:00.250000+00:00"],
    ],
)
def test_times_of_a_csv_file_are_in_utc_whatever_their_offset(times, tmp_path):
    lines = ["path,taken,text", f"/a,{times[0]},2024-05-01", f"/b,{times[1]},yesterday", "/c,,"]
    (tmp_path / "t.csv").write_text("\n".join(lines))
    found = read_attributes(tmp_path / "t.csv", ["/a", "/b", "/c"])
    expected = [datetime.datetime(2024, 5, 1, 12), datetime.datetime(2024, 5, 2, 1, 30, 0, 250_000), None]
    assert found["taken"].to_pylist() == expected and found["text"].to_pylist()[1] == "yesterday"


def test_columns_of_a_parquet_file(tmp_path):
    columns = {
        "path": ["/a", "/b"],
        "day": [datetime.date(2024, 5, 1), None],
        "n": pyarrow.array([1, 2], pyarrow.int8()),
        "x": [float("nan"), 2.0],
    }
    columns |= {"t": pyarrow.array([0, 1], pyarrow.timestamp("ns", "Europe/Berlin")), "text": ["x", "y"]}
    pyarrow.parquet.write_table(pyarrow.table(columns), tmp_path / "t.parquet")
    found = read_attributes(tmp_path / "t.parquet", ["/b", "/a"])
    assert found["n"].to_pylist() == [2, 1] and found["x"].to_pylist() == [2.0, None]
    assert found["day"].to_pylist() == [None, datetime.datetime(2024, 5, 1)]
    assert found["t"].to_pylist()[1] == datetime.datetime(1970, 1, 1) and found["text"].to_pylist() == ["y", "x"]


@pytest.mark.parametrize(
    "columns, words",
    [
        ({"path": ["/a"]}, "has no row for 1 of 2 images, for example /b"),
        ({"path": ["/a", "/b", "/a"]}, "has several rows for /a"),
        ({"path": [1, 2]}, "the column path has the type int64 instead of text"),
        ({"name": ["/a", "/b"]}, "Expected path and other columns"),
        ({"path": ["/a", "/b"], "id": [1, 2]}, "cannot have the name 'id'"),
        ({"path": ["/a", "/b"], "n": [[1], [2]]}, "The attribute column n has the type list"),
    ],
)
def test_what_a_table_must_not_be(tmp_path, columns, words):
    pyarrow.parquet.write_table(pyarrow.table(columns), tmp_path / "t.parquet")
    with pytest.raises(ValueError, match=words) as caught:
        read_attributes(tmp_path / "t.parquet", ["/a", "/b"])
    assert str(tmp_path / "t.parquet") in str(caught.value) and "\n" not in str(caught.value)


def test_a_file_that_is_no_table(tmp_path):
    with pytest.raises(ValueError, match="Expected a .csv or .parquet file"):
        read_attributes("t.txt", [])
    (tmp_path / "t.csv").write_text("path,n,n\n/a,1,2\n")
    with pytest.raises(ValueError, match="Expected each column once"):
        read_attributes(tmp_path / "t.csv", ["/a"])
    (tmp_path / "t.parquet").write_bytes(b"text")
    with pytest.raises(ValueError, match="t.parquet cannot be read"):
        read_attributes(tmp_path / "t.parquet", ["/a"])


def test_values_of_python():
    found = attributes_of({"n": [1, None], "x": [float("nan"), 2.0]}, ["/a", "/b"])
    assert found.to_pydict() == {"path": ["/a", "/b"], "n": [1, None], "x": [None, 2.0]}
    with pytest.raises(ValueError, match="cannot have the name 'label'"):
        attributes_of({"label": [1]}, ["/a"])


def test_attributes_of_a_photo_are_for_its_new_boxes_but_not_for_earlier_ones():
    earlier = ["/a.jpg#xywh=0,0,9,9", "/a.jpg#xywh=9,0,9,9"]
    table = attributes_of({"n": [1, 2]}, earlier)
    rows = IndexRows(np.arange(2), earlier, [None] * 2, table, np.zeros(2, bool))
    paths = [*earlier, "/a.jpg", "/a.jpg#xywh=0,9,9,9"]
    found = joined(rows, list(range(4)), paths, attributes_of({"n": [7]}, ["/a.jpg"]))
    assert found["n"].to_pylist() == [1, 2, 7, 7]
    # An earlier box that is listed itself gets the new value.
    found = joined(rows, list(range(4)), paths, attributes_of({"n": [7, 8]}, ["/a.jpg", earlier[1]]))
    assert found["n"].to_pylist() == [1, 8, 7, 7]
