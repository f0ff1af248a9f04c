"""The command that checks a dataset on disk, and training with the list that it writes."""

import io
import json
import os

import numpy as np
import pytest
from PIL import Image

from pipelines.dataset import list_path
from pipelines.datasets import Split
from pipelines.reading.unreadable import classes_without_image, copies, verify
from tests.commands import Command, assert_one_error, run
from tests.pipelines import tiny_datasets as tiny
from tests.run_helpers import MODEL_FLAGS

BAD = {
    "zero.jpg": "is empty",
    "text.jpg": "is not a readable image",
    "cut.jpg": "cannot be decoded",
    "tiny.png": "has 3 x 20 pixels; expected at least 8 on each side",
    "paint.bmp": "is a BMP file, which tfdml does not read; save it as JPEG or PNG",
    "gone.jpg": "No such file or directory",
    "folder.jpg": "Is a directory",
}
FINE = ("good.jpg", "grey.png", "cmyk.jpg", "still.webp", "moving.webp", "with space Käfer\n.jpg")


@pytest.fixture(scope="module")
def mixed(tmp_path_factory):
    """A folder of images, some of them bad."""
    folder, random = tmp_path_factory.mktemp("mixed"), np.random.default_rng(0)
    noise = Image.fromarray(random.integers(0, 256, (20, 30, 3), np.uint8))
    for name in ("good.jpg", "still.webp", FINE[-1]):
        noise.rotate(len(name)).save(folder / name)
    noise.convert("L").save(folder / "grey.png")
    noise.convert("CMYK").save(folder / "cmyk.jpg")
    noise.resize((3, 20)).save(folder / "tiny.png")
    noise.save(folder / "paint.bmp")
    noise.save(folder / "moving.webp", save_all=True, append_images=[noise.rotate(90)])
    (folder / "zero.jpg").write_bytes(b"")
    (folder / "text.jpg").write_text("no picture")
    (folder / "cut.jpg").write_bytes((folder / "good.jpg").read_bytes()[:-200])
    (folder / "folder.jpg").mkdir()
    return folder


def split_of(folder, names, **columns):
    paths = np.array([str(folder / name) for name in names], dtype=object)
    return Split(paths, np.arange(len(names), dtype=np.int64) // 2, **columns)


def reasons(split, **options):
    return [verdict.reason for verdict in verify(split, **{"min_side": 8, "threads": 3, **options})]


def test_each_kind_of_bad_image_is_found_and_told(mixed):
    found = reasons(split_of(mixed, BAD))
    for (name, expected), reason in zip(BAD.items(), found, strict=True):
        assert reason and reason.startswith(expected), (name, reason)
    assert reasons(split_of(mixed, FINE)) == [None] * len(FINE)


def test_the_shortest_side_is_a_setting(mixed):
    assert reasons(split_of(mixed, ["tiny.png"]), min_side=3) == [None]
    assert reasons(split_of(mixed, ["good.jpg"]), min_side=21) == [
        "has 30 x 20 pixels; expected at least 21 on each side"
    ]


def test_encoded_rows_are_verified_too():
    file = io.BytesIO()
    Image.new("RGB", (9, 9)).save(file, "PNG")
    images = np.array([file.getvalue(), b"no picture"], dtype=object)
    assert [bool(reason) for reason in reasons(Split(images, np.arange(2)))] == [False, True]


@pytest.mark.parametrize(
    "box, fine",
    [
        ([0, 0, 30, 20], True),
        ([29, 19, 99, 99], True),
        ([-5, -5, 1, 1], True),
        ([30, 0, 40, 20], False),
        ([0, 20, 30, 25], False),
        ([5, 5, 5, 9], False),
        ([-9, 2, 0, 9], False),
    ],
)
def test_a_box_must_meet_its_image(mixed, box, fine):
    (reason,) = reasons(split_of(mixed, ["good.jpg"], boxes=np.array([box], np.int32)))
    assert (reason is None) == fine and (fine or f"30 x 20 pixels, and its box {box} is not inside" in reason)


def test_a_box_is_of_the_image_as_it_is_stored(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.fromarray(np.zeros((20, 40, 3), np.uint8)).save(tmp_path / "turned.jpg", exif=exif)
    for box, fine in (([25, 0, 40, 20], True), ([0, 25, 20, 40], False)):
        (reason,) = reasons(split_of(tmp_path, ["turned.jpg"], boxes=np.array([box], np.int32)))
        assert (reason is None) == fine


def test_rows_stay_in_order_and_are_counted(mixed):
    done = []
    names = ["good.jpg", "zero.jpg"] * 300
    verdicts = verify(split_of(mixed, names), min_side=1, threads=5, on_rows=done.append)
    assert [verdict.reason for verdict in verdicts] == [None, "is empty"] * 300
    assert sum(done) == 600 and len(done) == 3


def test_classes_without_an_image_and_copies(mixed):
    train = split_of(mixed, ["zero.jpg", "text.jpg", "good.jpg", "zero.jpg"], class_names={0: "wren"})
    test = split_of(mixed, ["grey.png", "good.jpg", "gone.jpg"])
    verdicts = [verify(split, min_side=1, threads=2) for split in (train, test)]
    assert classes_without_image(train, verdicts[0]) == ["wren"]
    assert classes_without_image(test, verdicts[1]) == ["1"]
    assert copies(*verdicts) == [(2, 1)]


def test_the_shorter_side_of_a_good_image_is_known(mixed):
    verdicts = verify(split_of(mixed, ["tiny.png", "good.jpg", "zero.jpg"]), min_side=1, threads=2)
    assert [verdict.side for verdict in verdicts] == [3, 20, None]


# The command


@pytest.fixture
def products(tmp_path):
    """Three training and two test products, of which one has no image that can be used."""
    folder = tiny.write_sop(tmp_path / "data")
    files = sorted((folder / "chair_final").iterdir())
    files[0].write_bytes(b"")
    files[1].unlink()
    files[3].write_text("no picture")
    return tmp_path


def check(folder, *more):
    return run("pipelines.check", "--dataset=sop", f"--data_dir={folder}/data", f"--out={folder}/bad.jsonl", *more)


@pytest.mark.nightly
def test_the_command_lists_what_is_bad_and_training_goes_on_without_it(products):
    done = check(products)
    assert done.returncode == 1, done.stderr
    assert "train: 6 images in 3 classes" in done.stdout and "test: 4 images in 2 classes" in done.stdout
    assert "train: 1 classes have no readable image: 1" in done.stdout
    assert f"Found 3 bad images and listed them in {products}/bad.jsonl" in done.stdout
    # Both views of a product are one picture, but never of two splits.
    assert "byte-for-byte" not in done.stdout
    listed = [json.loads(line) for line in (products / "bad.jsonl").read_text().splitlines()]
    name = "Stanford_Online_Products/chair_final/00000000000"
    assert [entry["image"] for entry in listed] == [f"{name}1_0.JPG", f"{name}1_1.JPG", f"{name}2_1.JPG"]
    assert [entry["reason"].split(" (")[0] for entry in listed] == [
        "is empty",
        "No such file or directory",
        "is not a readable image",
    ]
    flags = ["--dataset=sop", f"--data_dir={products}/data", *MODEL_FLAGS, "--epochs=1", "--steps_per_epoch=1"]
    flags += ["--sampler=uniform(batch_size=3)", f"--run_dir={products}/run"]
    error = run("tfdml.train", *flags).stderr.splitlines()[-1]
    assert error.startswith("Error: 1 of 6 listed images are missing") and "000000000001_1.JPG" in error
    assert 'python -m pipelines.check --dataset="sop"' in error
    done = run("tfdml.train", *flags, f"--ignore_images={products}/bad.jsonl")
    assert done.returncode == 0, done.stderr
    result = json.loads((products / "run" / "result.json").read_text())
    assert {f"recall_at_{k}" for k in (1, 10, 100, 1000)} < set(result["metrics"])
    assert result["metrics"]["queries"] == 4


def test_the_list_goes_beside_the_data_unless_told_otherwise(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "photos").mkdir()
    assert list_path("", "photos") == tmp_path / "photos" / "bad_images.jsonl"
    assert list_path("list.jsonl", "photos") == tmp_path / "list.jsonl"
    assert list_path("", "") == tmp_path / "bad_images.jsonl"
    (tmp_path / "photos/bad_images.jsonl").symlink_to(tmp_path / "precious")
    with pytest.raises(ValueError, match=f"^{tmp_path}/photos/bad_images.jsonl is a link, which may lead out of"):
        list_path("", "photos")
    (tmp_path / "photos/bad_images.jsonl").unlink()
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(OSError, match=f"{tmp_path}/photos/bad_images.jsonl.*read-only. Pass another --out"):
        list_path("", "photos")


@pytest.mark.slow
def test_the_command_where_all_is_well_and_copies_are_told(products):
    folder = tiny.write_sop(products / "well")
    files = sorted((folder / "chair_final").iterdir())
    files[-1].write_bytes(files[0].read_bytes())
    listed = products / "well.jsonl"
    listed.write_text("one that is mended\n")
    done = run("pipelines.check", "--dataset=sop", f"--data_dir={products}/well", f"--out={listed}")
    assert done.returncode == 0, done.stderr
    assert all("as published" in line for line in done.stderr.splitlines()), done.stderr
    assert "All images can be read." in done.stdout and f"{listed} is from an earlier check" in done.stdout
    assert listed.read_text() == "one that is mended\n"
    assert "1 test images are byte-for-byte copies of training images. The first is 'Stanford_" in done.stdout


@pytest.mark.nightly
def test_the_command_with_bad_flags(products):
    of_its_own = Command("pipelines.check", "--dataset=sop", f"--data_dir={products}/none")
    assert_one_error(run("pipelines.check"), "--dataset is missing. Use --dataset='folder(test_classes=0.3)'")
    assert_one_error(
        run("pipelines.check", f"--data_dir={products}/none"), f"--data_dir={products}/none is not a folder"
    )
    assert_one_error(run("pipelines.check", "--dataset=sopp"), "--dataset=sopp: ", "'sopp'", "Did you mean 'sop'")
    assert_one_error(check(products, "--treads=3"), "treads", "threads")
    assert_one_error(check(products, f"--out={products}/no/such/folder"), f"{products}/no/such/folder")
    assert_one_error(of_its_own.wait(), f"there is no folder {products}/none", "Get it from https://")


def test_an_image_of_one_pixel_is_read_as_tfdml_index_reads_it(tmp_path):
    for place, side in {"ant/a": 9, "ant/b": 1, "bee/a": 9, "bee/b": 9}.items():
        (tmp_path / place).parent.mkdir(exist_ok=True)
        Image.new("RGB", (side, side)).save(tmp_path / f"{place}.png")
    flags = ["--dataset=folder(test_classes=0.5)", f"--data_dir={tmp_path}", f"--out={tmp_path}/bad.jsonl"]
    done = run("pipelines.check", *flags)
    assert done.returncode == 0, done.stderr
    assert "1 image has a side of less than 8 pixels, for example 'ant/b.png'" in done.stdout
    assert "All images can be read." in done.stdout
    assert run("pipelines.check", *flags, "--min_side=8").returncode == 1
    assert "has 1 x 1 pixels" in (tmp_path / "bad.jsonl").read_text()
