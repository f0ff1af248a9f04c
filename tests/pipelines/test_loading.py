"""Lists of images to leave out, and files that are not there."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from pipelines.dataset import names_in_list, read_list, without, write_list
from pipelines.datasets import Dataset, Split, load
from pipelines.datasets.loading import from_anywhere, missing_files
from tests.pipelines.tiny_datasets import picture, write_sop

NAMES = ["a.jpg", "with space.jpg", "Käfer 甲虫.jpg", "two\nlines.jpg", '{"odd".jpg', "train#7", " edge.jpg "]


@pytest.fixture
def photos(tmp_path):
    """Two training classes and one test class of two images."""
    for name in ("train/ant/1", "train/ant/2", "train/bee/1", "train/bee/2", "test/cat/1", "test/cat/2"):
        picture(tmp_path / "photos" / f"{name}.jpg", (1, 2, 3))
    return tmp_path / "photos"


def names_left(dataset, folder):
    return [path.removeprefix(f"{folder}/") for split in (dataset.train, dataset.test) for path in split.images]


@pytest.mark.nightly
def test_a_dataset_is_imported_without_tfdml():
    """Not so in this process, where tfdml is imported already."""
    subprocess.run([sys.executable, "-c", "from pipelines.datasets import load"], check=True, capture_output=True)


def test_a_list_holds_any_name(tmp_path):
    write_list(tmp_path / "bad.jsonl", [(name, "is empty") for name in NAMES])
    assert read_list(tmp_path / "bad.jsonl") == NAMES


def test_a_list_may_be_plain_lines(tmp_path):
    (tmp_path / "bad.txt").write_text("a.jpg\r\n\nsub/b c.jpg  \n")
    assert read_list(tmp_path / "bad.txt") == ["a.jpg", "sub/b c.jpg"]


@pytest.mark.parametrize("line", ['{"image": "a.jpg"', '{"path": "a.jpg"}'])
def test_a_damaged_line_is_told(tmp_path, line):
    (tmp_path / "bad.jsonl").write_text(f"a.jpg\n{line}\n")
    with pytest.raises(ValueError, match=r"line 2, is not valid. Expected .*\"image\""):
        read_list(tmp_path / "bad.jsonl")
    with pytest.raises(OSError, match="--ignore_images=.*none: No such file"):
        read_list(tmp_path / "none")


@pytest.mark.parametrize("name", ["train/ant/2.jpg", "./train//ant/2.jpg", "ABSOLUTE/train/ant/2.jpg"])
def test_images_are_left_out_and_counted(photos, tmp_path, caplog, name):
    caplog.set_level("INFO", "pipelines")
    listed = tmp_path / "bad.txt"
    listed.write_text(f"{name.replace('ABSOLUTE', str(photos))}\n")
    dataset = load("folder", data_dir=str(photos), ignore_images=str(listed))
    left = ["train/ant/1.jpg", "train/bee/1.jpg", "train/bee/2.jpg", "test/cat/1.jpg", "test/cat/2.jpg"]
    assert names_left(dataset, photos) == left
    assert dataset.train.labels.tolist() == [0, 1, 1]
    assert f"--ignore_images={listed} removes 1 images, including all images of 0 classes" in caplog.text


def test_a_class_without_an_image_and_a_name_that_is_none_are_told(photos, tmp_path, caplog):
    caplog.set_level("INFO", "pipelines")
    write_list(tmp_path / "bad", [(f"train/ant/{name}.jpg", "is empty") for name in (1, 2, 3)])
    dataset = load("folder", data_dir=str(photos), ignore_images=str(tmp_path / "bad"))
    assert dataset.train.num_classes == 1
    assert "removes 2 images" in caplog.text and "including all images of 1 classes" in caplog.text
    assert "1 of 3 names in" in caplog.text and "are not images of folder, for example 'train/ant/3.jpg'" in caplog.text


def test_what_is_ignored_need_not_be_there_nor_be_an_image(photos, tmp_path):
    (photos / "train/ant/1.jpg").write_text("no picture")
    with pytest.raises(ValueError, match="is not a readable image"):
        load("folder", data_dir=str(photos))
    (tmp_path / "bad").write_text("train/ant/1.jpg\n")
    assert len(load("folder", data_dir=str(photos), ignore_images=str(tmp_path / "bad")).train) == 3
    folder = write_sop(tmp_path)
    gone = next(folder.glob("chair_final/*1_0.JPG"))
    gone.unlink()
    with pytest.raises(FileNotFoundError, match="1 of 6 listed images are missing.*pass the list as ignore_images"):
        load("sop", data_dir=str(tmp_path))
    (tmp_path / "bad").write_text(f"{gone.relative_to(tmp_path)}\n")
    assert len(load("sop", data_dir=str(tmp_path), ignore_images=str(tmp_path / "bad")).train) == 5


def test_rows_without_a_file_have_names_too(tmp_path):
    spec = "toycars(classes=4, images_per_class=2, image_size=16)"
    whole = load(spec, data_dir=str(tmp_path))
    assert names_in_list(whole.test, "test", str(tmp_path)) == ["test#0", "test#1", "test#2", "test#3"]
    write_list(tmp_path / "bad", [("test#2", "is ugly"), ("train#0", "is ugly")])
    dataset = load(spec, data_dir=str(tmp_path), ignore_images=str(tmp_path / "bad"))
    assert dataset.train.images.tolist() == whole.train.images.tolist()[1:]
    assert dataset.test.images.tolist() == [*whole.test.images[:2], whole.test.images[3]]


def test_a_table_named_by_a_relative_path_once_leaves_out_the_same_images(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("mine.csv").write_text("path,label,split\na.jpg,x,test\nb.jpg,x,test\nc.jpg,x,test\n")
    for name in "abc":
        picture(tmp_path / f"{name}.jpg", (1, 2, 3))
    spec = "csv(path='mine.csv')"
    for each in (spec, from_anywhere(spec, "")):
        left, unknown = without(load(each, test_only=True), ["b.jpg", "d.jpg"], "")
        assert unknown == ["d.jpg"] and [os.path.basename(path) for path in left.test.images] == ["a.jpg", "c.jpg"]


def test_a_table_in_its_own_folder_is_found_from_anywhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    picture(tmp_path / "photos" / "a.jpg", (1, 2, 3))
    Path("photos", "mine.csv").write_text("path,label,split\na.jpg,x,test\n")
    spec = from_anywhere("csv(path='mine.csv', data_dir='photos')", "")
    monkeypatch.chdir("/")
    assert load(spec, test_only=True).test.images.tolist() == [str(tmp_path / "photos" / "a.jpg")]


def test_ignoring_everything_is_told(photos, tmp_path):
    (tmp_path / "bad").write_text("test/cat/1.jpg\ntest/cat/2.jpg\n")
    with pytest.raises(ValueError, match="folder has no test image"):
        load("folder", data_dir=str(photos), ignore_images=str(tmp_path / "bad"))


def test_a_name_that_is_no_utf8_is_told(photos):
    (photos / "train/ant/1.jpg").rename(os.fsdecode(bytes(photos) + b"/train/ant/\xff.jpg"))
    with pytest.raises(ValueError, match=re.escape(r"/train/ant/\xff.jpg' is not valid UTF-8")):
        load("folder", data_dir=str(photos))


def test_names_with_spaces_unicode_and_line_breaks_are_read(photos):
    for name in ("a b", "Käfer 甲虫", "two\nlines"):
        picture(photos / f"train/{name}/{name}.jpg", (1, 2, 3))
    assert load("folder", data_dir=str(photos)).train.num_classes == 5


def test_files_are_missed_by_rows(tmp_path, monkeypatch):
    picture(tmp_path / "sub/a.jpg", (1, 2, 3))
    paths = [f"{tmp_path}/sub/a.jpg", f"{tmp_path}/sub/b.jpg", f"{tmp_path}/none/a.jpg"]
    assert missing_files(paths) == [1, 2]
    monkeypatch.chdir(tmp_path / "sub")
    assert missing_files(["a.jpg", "b.jpg"]) == [1]


def test_published_files_are_not_looked_into(tmp_path):
    next(write_sop(tmp_path).glob("chair_final/*")).write_text("no picture")
    assert isinstance(load("sop", data_dir=str(tmp_path)), Dataset)


def test_a_list_of_paths_from_nowhere_is_followed(tmp_path):
    """Without a folder, as for a table that names its own, and with one written in a roundabout way."""
    path = str(tmp_path / "photos" / "a.jpg")
    split = Split(np.array([path, "b.jpg"], dtype=object), np.array([0, 0]))
    other = Split(np.array(["elsewhere.jpg"], dtype=object), np.array([1]))
    dataset = Dataset("photos", split, other)
    for folder, name in ((None, path), (f"{tmp_path}/x/../photos", "a.jpg")):
        assert names_in_list(split, "train", folder) == [name, "b.jpg"]
        left, unknown = without(dataset, [name], folder)
        assert unknown == [] and left.train.images.tolist() == ["b.jpg"]
