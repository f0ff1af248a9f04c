"""Test images that are nearly training images: against loops, and the command that finds them."""

import io
import json

import numpy as np
import pytest
from PIL import Image, ImageEnhance

from pipelines.dataset import read_list
from pipelines.datasets import Split, load
from pipelines.reading import near_duplicates
from pipelines.reading.near_duplicates import NearDuplicates, in_words, read_near_duplicates, small_images
from tests.commands import assert_one_error, run
from tests.serving_fixtures import picture


def test_all_pairs_are_those_of_loops(monkeypatch):
    monkeypatch.setattr(near_duplicates, "ROWS", 7)
    monkeypatch.setattr(near_duplicates, "COLUMNS", 5)
    random = np.random.default_rng(0)
    train, test = random.normal(size=(33, 4)), random.normal(size=(20, 4))
    train[3] = 0
    similarities = np.array([[a @ b / max(np.linalg.norm(a) * np.linalg.norm(b), 1e-9) for b in train] for a in test])
    for least in (0.5, 0.95, 1.0):
        found = NearDuplicates.of(train, test, least)
        expected = np.flatnonzero(similarities.max(axis=1) >= least)
        assert found.rows.tolist() == expected.tolist() and found.pairs == (similarities >= least).sum()
        assert found.nearest.tolist() == similarities[expected].argmax(axis=1).tolist()
        np.testing.assert_allclose(found.similarities, similarities[expected].max(axis=1), rtol=1e-5)


def test_equal_ones_are_found_whatever_they_are_rounded_to():
    vectors = np.random.default_rng(0).normal(size=(500, 64)).astype(np.float32)
    found = NearDuplicates.of(vectors, vectors * 3, 1.0)
    assert found.pairs == 500 and found.rows.tolist() == found.nearest.tolist() == list(range(500))


def test_missing_numbers_are_told(tmp_path):
    vectors = np.ones((3, 2), np.float32)
    vectors[1] = np.nan
    for name, each in (("train.npy", vectors), ("test.npy", vectors[:1])):
        np.save(tmp_path / name, each)
    splits = {"train": range(3), "test": range(1)}
    with pytest.raises(ValueError, match="train.npy: 1 of 3 embeddings are not finite. The first is row 1"):
        near_duplicates.read_embeddings([tmp_path / "train.npy", tmp_path / "test.npy"], splits)


def encoded(image, kind="PNG", **options):
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def split_of(contents):
    images = np.empty(len(contents), object)
    images[:] = contents
    return Split(images, np.arange(len(contents)))


def test_small_images_are_equal_but_for_size_light_and_compression():
    images = [Image.open(io.BytesIO(picture(seed, 120, 160))).convert("RGB") for seed in range(6)]
    darker = ImageEnhance.Brightness(images[0]).enhance(0.7)
    changed = [
        encoded(images[0], "JPEG", quality=60),
        encoded(images[1].resize((80, 60), Image.Resampling.LANCZOS)),
        encoded(darker),
        encoded(Image.new("RGB", (40, 30), (9, 9, 9))),
        picture(99, 120, 160),
    ]
    found = NearDuplicates.of(
        small_images(split_of([encoded(each) for each in images])), small_images(split_of(changed)), 0.99
    )
    assert found.rows.tolist() == [0, 1, 2] and found.nearest.tolist() == [0, 1, 0] and found.pairs == 3


@pytest.fixture
def photos(tmp_path):
    """Four classes; of those of the test one photo is a smaller one of a training photo."""
    folder = tmp_path / "photos"
    for row in range(12):
        path = folder / f"class{row % 4}" / f"{row}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(picture(row, 60, 80))
    dataset = load("folder(test_classes=0.5)", data_dir=str(folder))
    train, test = dataset.train.images[1], dataset.test.images[2]
    Image.open(train).resize((40, 30)).save(test)
    return folder, train, test


@pytest.mark.nightly
def test_the_command_lists_them_and_a_report_shows_their_number(photos, tmp_path):
    folder, train, test = photos
    flags = ["--dataset=folder(test_classes=0.5)", f"--data_dir={folder}", "--near_duplicates"]
    done = run("pipelines.check", *flags)
    assert done.returncode == 0, done.stderr
    told = (
        "1 of 6 test images are nearly identical to training images: their small gray images have a similarity of 0.99"
    )
    told += " or more (1 pairs in all)."
    lines = done.stdout.splitlines()
    place = lines.index(told)
    names = [str(path).removeprefix(f"{folder}/") for path in (test, train)]
    assert lines[place + 1].split()[1:] == names
    assert lines[place + 2] == f"To evaluate without them, pass --ignore_images={folder}/near_duplicates.jsonl"
    assert read_list(folder / "near_duplicates.jsonl") == names[:1]
    found = read_near_duplicates(folder, "folder(test_classes=0.5)")
    assert [each[:2] for each in found["found"]] == [names] and found["train"] == found["test"] == 6
    assert told in in_words(found)
    # Of another dataset, or of a damaged file, nothing is known.
    assert read_near_duplicates(folder, "folder(test_classes=0.4)") is None
    (folder / "near_duplicates.json").write_text(json.dumps({"dataset": "folder(test_classes=0.5)"}))
    assert read_near_duplicates(folder, "folder(test_classes=0.5)") is None and read_near_duplicates("", "x") is None
    vectors = np.eye(6, dtype=np.float32)
    np.save(tmp_path / "train.npy", vectors)
    np.save(tmp_path / "test.npy", vectors[[0, 0, 5, 5, 5, 5]] + 0.01)
    done = run("pipelines.check", *flags, f"--embeddings={tmp_path}/train.npy,{tmp_path}/test.npy", "--similarity=0.9")
    assert (
        "6 of 6 test images are nearly identical to training images: their embeddings have a similarity of 0.9"
        in done.stdout
    )
    np.save(tmp_path / "test.npy", vectors[:5])
    done = run("pipelines.check", *flags, f"--embeddings={tmp_path}/train.npy,{tmp_path}/test.npy")
    assert_one_error(done, "must contain floats of shape [6, d]", "Received: shape [5, 6]")
    assert_one_error(
        run("pipelines.check", flags[0], flags[1], "--embeddings=a"),
        "--embeddings has no effect without --near_duplicates",
    )
    assert_one_error(run("pipelines.check", *flags, "--embeddings=a"), "--embeddings needs two files")
