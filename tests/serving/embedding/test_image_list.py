"""Lists of images: folders, patterns, tables; what cannot be one is told."""

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from tests.bulk_fixtures import write_photos
from tfdml.files.shards import Shard, write_shard
from tfdml.serving.image_list import ImageList


def test_a_name_that_is_not_utf8_is_told_before_an_image_is_embedded(tmp_path):
    (tmp_path / "b\udcff.png").write_bytes(b"image")
    for source in (tmp_path, tmp_path / "*.png"):
        with pytest.raises(ValueError, match=r"b\\xff.png' is not valid UTF-8. Rename the file."):
            ImageList.of(source)


def test_patterns_list_a_file_once_and_only_themselves_are_patterns(tmp_path, monkeypatch):
    here = tmp_path / "[1]"
    (here / "a" / "b").mkdir(parents=True)
    files = [here / "a" / "2.jpg", here / "a" / "b" / "1.jpg"]
    for file in files:
        file.touch()
    monkeypatch.chdir(here)
    for pattern in ("**/**/*.jpg", "a/**/**/*.jpg", "../[[]1]/a/../**/**/*.jpg"):
        assert ImageList.of(pattern).paths == list(map(str, files))
    assert ImageList.of("a/**/*.jpg").labels == [None, "b"]
    (here / "a" / "b" / "all").symlink_to(here)
    with pytest.raises(ValueError, match="a/b/all is a link to .*, which contains the link"):
        ImageList.of("a/**/*.jpg")


def test_lists_of_images(tmp_path):
    (tmp_path / "photos").mkdir()
    photos = write_photos(tmp_path / "photos")
    found = ImageList.of(f"{photos.parent}/{photos.name}/1?.png")
    assert found.paths == [f"{photos}/{number}.png" for number in (10, 11, 12)] and found.labels == [None] * 3
    assert ImageList.of(f"{photos.parent}/{photos.name[:-1]}?/**/1?.png").labels == [photos.name] * 3
    # What was embedded is itself such a table.
    write_shard(tmp_path, 2, Shard(np.arange(3), found.paths, ["even", "odd", "even"], np.zeros((3, 2), np.float32)))
    table = ImageList.of(tmp_path / "shard-000002.parquet")
    assert table.paths == found.paths and table.labels == ["even", "odd", "even"]
    pyarrow.parquet.write_table(pyarrow.table({"path": [1]}), tmp_path / "numbers.parquet")
    (tmp_path / "cut.parquet").write_bytes(b"PAR1")
    for name, text in {
        "none.csv": "file\na",
        "empty.csv": "path,label\n,x",
        "twice.csv": "path\na\na",
        "far.csv": "path\ngs://b/a",
    }.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "marked.txt").write_text(f"{found.paths[0]}\tten\n", encoding="utf-8-sig")
    assert ImageList.of(tmp_path / "marked.txt").paths == found.paths[:1]
    for mistyped in ("phtos", "my-photos", "list.txt", f"{tmp_path}/none"):
        with pytest.raises(FileNotFoundError, match=f"{mistyped} is not a folder, a file or the name of a dataset"):
            ImageList.of(mistyped)
    for source, words in {
        f"{photos}/*.gif": "matches no images",
        tmp_path / "none.csv": "Expected one column path",
        tmp_path / "empty.csv": "line 2 has no path",
        tmp_path / "twice.csv": "lists an image twice",
        tmp_path / "far.csv": "far.csv: gs://b/a is not on a file system",
        tmp_path / "numbers.parquet": "the column path must contain texts, but its type is int64",
        tmp_path / "cut.parquet": "cannot be read",
    }.items():
        with pytest.raises(ValueError, match=words):
            ImageList.of(source)


def test_what_is_a_dataset(tmp_path):
    (tmp_path / "list.txt").write_text("a.jpg")
    specs = {"toycars": True, "folder(test_classes=0.3)": True, "photos/*.jpg": False, tmp_path: False}
    assert {source: ImageList.is_dataset(source) for source in specs} == specs
    assert not ImageList.is_dataset(tmp_path / "list.txt")
