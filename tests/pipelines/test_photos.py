"""A folder of images without classes."""

import shutil

import numpy as np
import pytest

from pipelines.dataset import WHOLE
from pipelines.datasets import load
from pipelines.datasets.photos import photos
from tfdml.run.experiment.splits import measurable

NAMES = [f"{folder}{number}.jpg" for folder in ("", "trip/", "trip/day 2/", "Küche/") for number in range(10)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    from PIL import Image

    root, random = tmp_path_factory.mktemp("photos"), np.random.default_rng(0)
    for name in [*NAMES, ".hidden/a.jpg", "trip/._1.jpg"]:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(random.integers(0, 256, (30, 40, 3), np.uint8)).save(root / name, "JPEG")
    (root / "notes.txt").write_text("no image")
    return root


def names_of(split, folder):
    return {path.removeprefix(f"{folder}/") for path in split.images}


def test_all_images_at_any_depth_train_or_are_measured(folder):
    dataset = load("photos(held_out=0.25)", data_dir=folder)
    train, test = (names_of(split, folder) for split in (dataset.train, dataset.test))
    assert train | test == set(NAMES) and not train & test and len(test) == 10
    assert len(np.unique(dataset.train.labels)) == len(dataset.train) == 30


def test_each_measured_image_has_a_whole_view_and_a_part(folder):
    test = photos(folder).test
    half = len(test) // 2
    np.testing.assert_array_equal(test.images[:half], test.images[half:])
    np.testing.assert_array_equal(test.labels[:half], test.labels[half:])
    assert np.all(test.boxes[:half] == WHOLE)
    left, top, right, bottom = test.boxes[half:].T
    assert np.all(left >= 0) and np.all(top >= 0) and np.all(right <= 40) and np.all(bottom <= 30)
    assert set(right - left) == {28} and set(bottom - top) == {21} and len(np.unique(test.boxes[half:], axis=0)) > 1
    # Always the same.
    np.testing.assert_array_equal(photos(folder).test.boxes, test.boxes)


def test_a_new_image_moves_no_other(folder, tmp_path):
    grown = tmp_path / "grown"
    shutil.copytree(folder, grown)
    shutil.copy(grown / "0.jpg", grown / "new.jpg")
    before, after = (names_of(photos(each, held_out=0.25).test, each) for each in (folder, grown))
    assert len(before - after) <= 1


def test_links_in_a_circle_are_told(folder, tmp_path):
    linked = tmp_path / "photos"
    shutil.copytree(folder, linked)
    (linked / "trip" / "more").symlink_to(folder)
    photos(linked)
    (linked / "trip" / "all").symlink_to(linked)
    with pytest.raises(ValueError, match="trip/all is a link to .*photos, which contains the link"):
        photos(linked)


def test_links_in_a_circle_of_several_folders_are_told(folder, tmp_path):
    linked = tmp_path / "photos"
    shutil.copytree(folder, linked)
    (linked / "trip" / "more").symlink_to("../Küche")
    photos(linked)
    (linked / "Küche" / "back").symlink_to("../trip")
    with pytest.raises(ValueError, match="/back is a link to .*photos/trip, which contains the link|/more is a link"):
        photos(linked)


def test_validation_is_measured_in_two_views_too(folder):
    train, held = photos(folder).hold_out(0.25, seed=0)
    assert train.boxes is None and len(held.different_images()) == len(held) // 2 == 9
    assert not names_of(train, folder) & names_of(held, folder)


def test_metrics_that_need_classes_are_left_out_in_one_line(folder, caplog):
    dataset = photos(folder)
    kept = measurable(dataset, ["recall_at_1", "neighbors_kept(k=3)", "nmi", "effective_rank"])
    assert kept == ["neighbors_kept(k=3)", "effective_rank"]
    (line,) = caplog.messages
    assert line == "photos has no classes, so these metrics are skipped: recall_at_1, nmi."


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda folder: photos(""), "'photos' needs a folder with your images, at any depth"),
        (lambda folder: photos(folder / "nowhere"), "The folder .*nowhere does not exist"),
        (lambda folder: photos(folder / "trip" / "day 2", held_out=0.95), "has too few images for held_out=0.95"),
        (lambda folder: photos(folder / ".hidden"), "too few images"),
    ],
)
def test_what_is_wrong_with_a_folder_is_told(folder, make, message):
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        make(folder)


def test_an_unreadable_image_is_named_and_may_be_ignored(folder, tmp_path):
    import shutil

    damaged = tmp_path / "damaged"
    shutil.copytree(folder, damaged)
    bad = photos(damaged).test.images[0]
    with open(bad, "wb") as file:
        file.write(b"no image")
    with pytest.raises(ValueError, match="is not a readable image"):
        load("photos", data_dir=damaged)
    (tmp_path / "bad.txt").write_text(bad)
    dataset = load("photos", data_dir=damaged, ignore_images=tmp_path / "bad.txt")
    assert bad not in dataset.test.images and len(dataset.test) == 6
