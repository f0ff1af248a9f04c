"""The half of Cars196 is put together from the crops of a checkout."""

import csv

import numpy as np
import pytest
from PIL import Image
from scipy.io import savemat

from benchmarks.studies import cars_set

# Width, height and class of each crop.
CROPS = ((300, 150, 2), (60, 90, 1), (129, 500, 2))


@pytest.fixture
def source(tmp_path, monkeypatch):
    """A checkout with three crops of two classes, whose red channel is stored as blue."""
    monkeypatch.setattr(cars_set, "TRAINING_CLASSES", 1)
    folder = tmp_path / "source"
    (folder / "cars_train").mkdir(parents=True)
    for number, (width, height, _) in enumerate(CROPS, 1):
        pixels = np.zeros((height, width, 3), np.uint8)
        pixels[..., 2] = 200
        Image.fromarray(pixels).save(folder / f"cars_train/{number:05}.jpg", quality=95)
    savemat(folder / "cars_meta.mat", {"class_names": np.array(["AM General 2000", "Acura 2012"], object)})
    (folder / "train_perfect_preds.txt").write_text("".join(f"{label}\n" for *_, label in CROPS))
    return folder


def test_crops_are_shrunk_and_their_channels_put_in_order(source, tmp_path):
    out = tmp_path / "out"
    images, classes, checksum = cars_set.write_set(source, out)
    assert (images, classes) == (3, 2)
    sizes = {}
    for path in out.glob("*/*/*.jpg"):
        with Image.open(path) as image:
            sizes[path.relative_to(out).as_posix()] = image.size
            red, green, blue = np.asarray(image).reshape(-1, 3).mean(0)
        assert red > 190 and max(green, blue) < 10
    # The second crop is small enough, and the sides of the third round to whole pixels.
    assert sizes == {
        "test/002/00001.jpg": (256, 128),
        "train/001/00002.jpg": (60, 90),
        "test/002/00003.jpg": (128, 496),
    }
    rows = list(csv.DictReader((out / "classes.csv").read_text().splitlines()))
    assert [tuple(row.values()) for row in rows] == [
        ("train", "001", "AM General 2000", "AM", "1"),
        ("test", "002", "Acura 2012", "Acura", "2"),
    ]
    assert cars_set.write_set(source, tmp_path / "again")[2] == checksum


def test_the_checksum_depends_on_pixels_and_classes(source, tmp_path):
    checksum = cars_set.write_set(source, tmp_path / "out")[2]
    Image.new("RGB", (60, 90), "white").save(source / "cars_train/00002.jpg")
    changed = cars_set.write_set(source, tmp_path / "changed")[2]
    (source / "train_perfect_preds.txt").write_text("2\n2\n2\n")
    assert len({checksum, changed, cars_set.write_set(source, tmp_path / "moved")[2]}) == 3


def test_a_missing_file_is_named(source, tmp_path):
    (source / "cars_meta.mat").unlink()
    with pytest.raises(SystemExit, match=r"cars_meta.mat does not exist\. Check out the repository"):
        cars_set.write_set(source, tmp_path / "out")
