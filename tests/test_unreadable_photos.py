"""Training on folders with images that cannot be read, and without some of what it needs."""

import shutil
from pathlib import Path

import pytest

from pipelines.datasets.folder import folder as folder_dataset
from tests.commands import assert_one_error, ok, run
from tests.photo_runs import half, nothing, photo_flags, text
from tests.run_helpers import result


@pytest.mark.parametrize(
    "name, content",
    [
        ("train/bee/2.jpg", text),
        pytest.param("test/gnu/3.jpg", nothing, marks=pytest.mark.nightly),
        pytest.param("test/fox/1.jpg", half, marks=pytest.mark.nightly),
    ],
)
def test_train_names_the_unreadable_image(damaged_photos, tmp_path, name, content):
    """A file that is not an image, and an image with a whole header and a cut body."""
    folder, path = damaged_photos(name, content)
    done = run("tfdml.train", *photo_flags(folder, tmp_path / "run", "--steps_per_epoch=9"))
    assert_one_error(done, str(path))


@pytest.mark.nightly
def test_train_goes_on_without_as_many_bad_images_as_are_allowed(damaged_photos, tmp_path):
    """Through a cache and with clusters, which see all training images; one more stops the run."""
    folder, path = damaged_photos("train/cat/0.jpg", half)
    more = ["--max_bad_images=1", "--steps_per_epoch=9"]
    divided = ["--method=divide_and_conquer(learners=2)", "--sampler=uniform(batch_size=4)"]
    done = ok("tfdml.train", *photo_flags(folder, tmp_path / "run", *more, *divided))
    assert f"Cannot read {path}" in done.stderr and result(tmp_path / "run")["bad_images"] == 1
    other = folder / "train" / "cat" / "1.jpg"
    other.write_bytes(half(other.read_bytes()))
    done = run("tfdml.train", *photo_flags(folder, tmp_path / "more", *more))
    assert_one_error_at_the_end(done, "2 training images cannot be read, more than --max_bad_images=1", str(other))


@pytest.mark.nightly
def test_a_class_of_bad_images_stops_training_however_many_are_allowed(damaged_photos, tmp_path):
    folder, path = damaged_photos("train/cat/0.jpg", half)
    for other in path.parent.iterdir():
        if other != path:
            other.write_bytes(half(other.read_bytes()))
    more = ["--max_bad_images=99", "--steps_per_epoch=9"]
    done = run("tfdml.train", *photo_flags(folder, tmp_path / "run", *more))
    count = len(list(path.parent.iterdir()))
    told = f"Cannot read any of the {count} images of a class, such as {path.parent}"
    assert_one_error_at_the_end(done, told, "Invalid JPEG data")


def assert_one_error_at_the_end(done, *parts):
    assert done.returncode == 1 and "Traceback" not in done.stderr
    last = done.stderr.splitlines()[-1]
    assert last.startswith("Error: ") and all(part in last for part in parts), done.stderr


@pytest.mark.nightly
def test_a_cache_changes_no_result(photos, tmp_path):
    results = {}
    for kind in ("none", "pixels"):
        more = [f"--cache={kind}", f"--cache_dir={tmp_path}/kept", "--cache_memory=0", "--steps_per_epoch=3"]
        ok("tfdml.train", *photo_flags(photos, tmp_path / kind, *more))
        results[kind] = result(tmp_path / kind)
    assert results["none"] == results["pixels"]
    assert len(list((tmp_path / "kept").iterdir())) >= 2


@pytest.mark.slow
def test_train_names_the_unreadable_image_in_a_class_that_is_held_out(photos, tmp_path):
    folder = shutil.copytree(photos, tmp_path / "photos")
    _, validation = folder_dataset(folder).hold_out(0.5, seed=0)
    path = Path(validation.images[0])
    path.write_bytes(half(path.read_bytes()))
    more = ["--evaluate_on=validation", "--validation_classes=0.5"]
    assert_one_error(run("tfdml.train", *photo_flags(folder, tmp_path / "run", *more)), str(path))


def test_train_names_the_empty_class_folder(photos, tmp_path):
    folder = shutil.copytree(photos, tmp_path / "photos")
    (folder / "train" / "yak").mkdir()
    done = run("tfdml.train", *photo_flags(folder, tmp_path / "run"))
    assert_one_error(done, str(folder / "train" / "yak"), "no images")


@pytest.mark.parametrize("missing", ["", "train", "test"])
def test_train_names_the_missing_folder(photos, tmp_path, missing):
    folder = tmp_path / "photos"
    if missing:
        shutil.copytree(photos, folder)
        shutil.rmtree(folder / missing)
    done = run("tfdml.train", *photo_flags(folder, tmp_path / "run"))
    assert_one_error(done, str(folder / (missing or "train")))
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_train_without_data_dir(tmp_path):
    assert_one_error(run("tfdml.train", *photo_flags("", tmp_path / "run")), "--data_dir", "train/<class>")
