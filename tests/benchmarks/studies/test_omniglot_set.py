"""The Omniglot set is put together from the archives of a checkout."""

import csv
import io
import zipfile

import numpy as np
import pytest
from PIL import Image

from benchmarks.studies import omniglot_set


def drawing(seed):
    pixels = np.random.default_rng(seed).integers(0, 2, (105, 105)).astype(bool)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "png")
    return file.getvalue()


def add(source, archive, *names):
    (source / "python").mkdir(exist_ok=True)
    with zipfile.ZipFile(source / "python" / archive, "w") as archived:
        for name in names:
            archived.writestr(f"{archive.removesuffix('.zip')}/{name}", drawing(len(name)))


@pytest.fixture
def source(tmp_path):
    """A checkout whose archives share an alphabet."""
    first, second = omniglot_set.ARCHIVES
    add(tmp_path, first, "Greek/character01/0394_01.png", "Greek/character01/0394_02.png", "notes.txt")
    add(tmp_path, second, "Greek/character01/0394_01.png", "Japanese_(katakana)/character02/0607_01.png")
    return tmp_path


def test_alphabets_are_in_one_part_and_drawings_in_it_once(source, tmp_path, monkeypatch):
    monkeypatch.setattr(omniglot_set, "TEST_ALPHABETS", {"Greek"})
    images, classes, checksum = omniglot_set.write_set(source, tmp_path / "out")
    assert (images, classes) == (3, 2)
    assert sorted(path.relative_to(tmp_path / "out").as_posix() for path in (tmp_path / "out").glob("*/*/*")) == [
        "test/Greek__character01/0394_01.png",
        "test/Greek__character01/0394_02.png",
        "train/Japanese_katakana__character02/0607_01.png",
    ]
    written = (tmp_path / "out/train/Japanese_katakana__character02/0607_01.png").read_bytes()
    assert written == drawing(len("Japanese_(katakana)/character02/0607_01.png"))
    rows = list(csv.DictReader((tmp_path / "out/classes.csv").read_text().splitlines()))
    assert [tuple(row.values()) for row in rows] == [
        ("test", "Greek__character01", "Greek"),
        ("train", "Japanese_katakana__character02", "Japanese_katakana"),
    ]
    assert omniglot_set.write_set(source, tmp_path / "again")[2] == checksum
    monkeypatch.undo()
    assert omniglot_set.write_set(source, tmp_path / "divided")[2] != checksum


def test_the_checksum_depends_on_pixels(source, tmp_path):
    checksum = omniglot_set.write_set(source, tmp_path / "out")[2]
    archive = omniglot_set.ARCHIVES[0]
    with zipfile.ZipFile(source / "python" / archive, "w") as archived:
        archived.writestr("images_background_small1/Greek/character01/0394_01.png", drawing(0))
        archived.writestr("images_background_small1/Greek/character01/0394_02.png", drawing(99))
    assert omniglot_set.write_set(source, tmp_path / "changed")[2] != checksum


def test_a_missing_archive_is_named(tmp_path):
    with pytest.raises(SystemExit, match=r"The file .*images_background_small1.zip does not exist\. Check out"):
        omniglot_set.write_set(tmp_path, tmp_path / "out")
