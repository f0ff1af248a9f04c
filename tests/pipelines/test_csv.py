"""Your own images in a table."""

import numpy as np
import pytest

from pipelines.datasets import load
from pipelines.datasets.loading import from_anywhere
from pipelines.labels import class_numbers_of
from tests.pipelines.tiny_datasets import picture

PLAIN = """path,label,split
a.jpg,mug,train
b.jpg,mug,train
sub/c.jpg,cup,train
d.jpg,pot,test
e.jpg,pot,test
"""


@pytest.fixture
def table(tmp_path):
    """Function that writes a table and the images that its first column names, and gives its path."""

    def write(text, encoding="utf-8"):
        path = tmp_path / "rows.csv"
        path.write_bytes(text.encode(encoding))
        for name in ("a.jpg", "b.jpg", "sub/c.jpg", "d.jpg", "e.jpg"):
            picture(tmp_path / name, (1, 2, 3))
        return path

    return write


def read(path, data_dir=""):
    return load(f"csv(path={str(path)!r})", data_dir=str(data_dir))


def test_rows_labels_and_splits(table, tmp_path):
    dataset = read(table(PLAIN))
    assert dataset.train.images.tolist() == [str(tmp_path / name) for name in ("a.jpg", "b.jpg", "sub/c.jpg")]
    assert [dataset.train.class_names[label] for label in dataset.train.labels] == ["mug", "mug", "cup"]
    assert [dataset.test.class_names[label] for label in dataset.test.labels] == ["pot", "pot"]
    assert dataset.protocol == "query_gallery"
    for split in (dataset.train, dataset.test):
        assert (split.cameras, split.groups, split.is_query, split.is_gallery) == (None,) * 4


def test_paths_start_from_data_dir_and_the_table_may_lie_in_it(table, tmp_path, monkeypatch):
    expected = read(table(PLAIN)).train.images.tolist()
    assert read("rows.csv", tmp_path).train.images.tolist() == expected
    monkeypatch.chdir(tmp_path)
    assert read("rows.csv").train.images.tolist() == ["a.jpg", "b.jpg", "sub/c.jpg"]
    (tmp_path / "lists").mkdir()
    (tmp_path / "rows.csv").rename(tmp_path / "lists" / "rows.csv")
    assert read("lists/rows.csv", tmp_path).train.images.tolist() == expected
    text = PLAIN.replace("a.jpg", str(tmp_path / "a.jpg")).replace("sub/c.jpg", "sub/../sub/c.jpg")
    assert read(table(text), tmp_path).train.images.tolist() == expected


def test_all_columns_in_any_order(table):
    dataset = read(
        table(
            "label, split, path, group, camera, is_query, is_gallery\n"
            "1,train,a.jpg,x,north,1,\n"
            "1,train,b.jpg,,,,\n"
            "10,test,sub/c.jpg,y,south,yes,no\n"
            "2,test,d.jpg,y,north,False,TRUE\n"
            "10,test,e.jpg,,,0,1\n"
        )
    )
    # Numbers are sorted as numbers.
    assert dataset.test.class_names == {0: "1", 1: "2", 2: "10"}
    assert dataset.test.labels.tolist() == [2, 1, 2]
    assert dataset.test.is_query.tolist() == [True, False, False]
    assert dataset.test.is_gallery.tolist() == [False, True, True]
    assert dataset.train.is_query is None and dataset.train.is_gallery is None
    cameras = np.concatenate([dataset.train.cameras, dataset.test.cameras])
    assert cameras[0] == cameras[3] and len(set(cameras)) == 4
    groups = np.concatenate([dataset.train.groups, dataset.test.groups])
    # Rows without a group have none in common with any other.
    assert groups[2] == groups[3] and len(set(groups)) == 4


def test_names_with_spaces_commas_unicode_and_line_breaks(table, tmp_path):
    names = ["a b.jpg", "c,d.jpg", "Käfer 甲虫.jpg", 'quote".jpg', "two\nlines.jpg"]
    for name in names:
        picture(tmp_path / name, (1, 2, 3))
    rows = [
        f'"{name.replace(chr(34), chr(34) * 2)}",{"ü" if place else "o"},{"test" if place else "train"}\r\n'
        for place, name in enumerate(names)
    ]
    dataset = read(table("path,label,split\r\n" + "".join(rows)))
    assert [*dataset.train.images, *dataset.test.images] == [str(tmp_path / name) for name in names]
    assert dataset.test.class_names[dataset.test.labels[0]] == "ü"


def test_a_byte_order_mark_and_blank_lines_are_fine(table):
    assert len(read(table("\ufeff" + PLAIN.replace("sub", "\nsub"))).train) == 3


def test_unknown_columns_are_told(table, caplog):
    read(table(PLAIN.replace("split", "split,colour").replace("train", "train,red").replace("test", "test,")))
    assert "columns that are ignored: colour" in caplog.text


BAD = {
    "no_column": (PLAIN.replace("label", "class"), "Expected path,label,split"),
    "semicolons": (PLAIN.replace(",", ";"), "separated by commas"),
    "column_twice": (PLAIN.replace("split\n", "split,path\n"), "each once"),
    "empty": ("", "Expected path,label,split"),
    "no_rows": ("path,label,split\n", "a header but no rows"),
    "short_row": (PLAIN.replace("b.jpg,mug,train", "b.jpg,mug"), "line 3, has 2 columns, but the header has 3"),
    "long_row": (PLAIN.replace("b.jpg,mug", "b,x.jpg,mug"), "line 3, has 4 columns.*double quotes"),
    "no_label": (PLAIN.replace("b.jpg,mug", "b.jpg, "), "line 3: label is empty"),
    "unknown_split": (
        PLAIN.replace("cup,train", "cup,val"),
        "line 4: split must be train or test. Received: 'val'",
    ),
    "class_in_both": (PLAIN.replace("d.jpg,pot", "d.jpg,mug"), "csv has 1 in both: mug"),
    "file_twice": (PLAIN.replace("b.jpg,mug", "./a.jpg,mug"), "1 images more than once, 0 of them both for training"),
    "file_in_both": (PLAIN.replace("e.jpg", "a.jpg"), "1 images more than once, 1 of them both for training"),
    "all_train": (PLAIN.replace("test", "train"), "has no test images. Expected rows with the split test"),
    "missing_file": (PLAIN.replace("e.jpg", "f.jpg"), "1 of 2 listed images are missing, for example '.*/f.jpg'"),
    "one_mark": (PLAIN.replace("split\n", "split,is_query\n"), "one of the columns is_query and is_gallery"),
    "open_quote": (PLAIN.replace("e.jpg", '"e.jpg'), "line 6, is not valid CSV: .* Expected columns"),
    "no_mark": (
        "path,label,split,is_query,is_gallery\na.jpg,1,train,,\nd.jpg,2,test,maybe,1\n",
        "line 3: is_query must be 1 or 0. Received: 'maybe'",
    ),
    "no_query": ("path,label,split,is_query,is_gallery\na.jpg,1,train,1,1\nd.jpg,2,test,0,1\n", "csv has no query"),
}


@pytest.mark.parametrize("text, message", BAD.values(), ids=BAD)
def test_what_is_wrong_is_told(table, text, message):
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        read(table(text))


UNDIVIDED = "path,label\na.jpg,mug\nb.jpg,mug\nsub/c.jpg,cup\nd.jpg,pot\ne.jpg,pot\n"


def test_a_table_without_a_split_is_divided_by_class(table):
    path = table(UNDIVIDED)
    with pytest.raises(
        ValueError, match=r"no column split. .*use the dataset \"csv\(path='.*rows.csv', test_classes=0\.3\)"
    ):
        read(path)
    dataset = load(f"csv(path={str(path)!r}, test_classes=0.3)")
    classes = dataset.classes()
    assert len(classes["test"]) == 1 and sorted(classes["train"] + classes["test"]) == ["cup", "mug", "pot"]
    assert load(f"csv(path={str(path)!r}, test_classes=0.3)", classes=classes).classes() == classes
    with pytest.raises(ValueError, match="has a column split.*remove test_classes"):
        load(f"csv(path={str(table(PLAIN))!r}, test_classes=0.3)")


def test_queries_are_marked_in_the_test_alone_when_divided(table):
    text = UNDIVIDED.replace("label", "label,is_query,is_gallery").replace("mug", "mug,1,1")
    text = text.replace("cup", "cup,1,1").replace("pot", "pot,1,1")
    dataset = load(f"csv(path={str(table(text))!r}, test_classes=0.3)")
    assert dataset.train.is_query is None and dataset.test.is_query.all()


def test_paths_from_the_working_directory_are_told(table, tmp_path, monkeypatch):
    """People write them as they would give them to a command."""
    path = table(PLAIN)
    (tmp_path / "lists").mkdir()
    path.rename(tmp_path / "lists" / "rows.csv")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        FileNotFoundError, match=r"'a.jpg', which exists in the working directory but not in lists.*pass data_dir='\.'"
    ):
        read("lists/rows.csv")
    assert len(read("lists/rows.csv", ".").train) == 3


def test_a_spec_that_means_the_same_from_anywhere(table, tmp_path, monkeypatch):
    path = table(PLAIN)
    monkeypatch.chdir(tmp_path)
    spec = from_anywhere("csv(path='rows.csv', seed=3)", "")
    assert spec == f"csv(path={str(path)!r}, seed=3)"
    monkeypatch.chdir("/")
    # In the folder of the images, which may be moved.
    assert from_anywhere("csv(path='rows.csv')", str(tmp_path)) == "csv(path='rows.csv')"
    assert from_anywhere("csv(path='rows.csv')", "/none") == "csv(path='/rows.csv')"
    assert from_anywhere("packed(path='shards')", "data") == "packed(path='/shards')"
    assert from_anywhere("packed(path='gs://bucket/a')", "") == "packed(path='gs://bucket/a')"
    assert from_anywhere("folder(test_classes=0.3)", "") == "folder(test_classes=0.3)"


def test_a_table_of_tests_alone_is_enough_to_evaluate(table):
    path = table(PLAIN.replace("train", "test"))
    assert load(f"csv(path={str(path)!r})", test_only=True).train is None
    with pytest.raises(ValueError, match=r"^The dataset csv\(.* has only a test split, .* not for training"):
        read(path)


def test_other_encodings_and_no_table(table, tmp_path):
    with pytest.raises(ValueError, match="rows.csv is not UTF-8 text"):
        read(table(PLAIN.replace("mug", "Krügel"), encoding="latin-1"))
    with pytest.raises(
        FileNotFoundError, match=f"table {tmp_path}/none.csv does not exist. Expected .* path,label,split"
    ):
        read(tmp_path / "none.csv")


def test_images_that_are_none_are_told(table, tmp_path):
    path = table(PLAIN)
    (tmp_path / "d.jpg").write_text("no picture")
    (tmp_path / "e.jpg").write_bytes(b"")
    with pytest.raises(ValueError, match=f"{tmp_path}/d.jpg is not a readable image.* 1 more files cannot be used"):
        read(path)


def test_numbers_that_are_equal_are_classes_of_their_own_in_one_order():
    for names in (["1", "01", "001", "2"], ["001", "2", "01", "1"]):
        numbers, known = class_numbers_of(names)
        assert list(known.values()) == ["001", "01", "1", "2"]
        assert [known[number] for number in numbers] == names
