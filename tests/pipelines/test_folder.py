import shlex
import shutil
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

from pipelines.datasets import folder as folder_module
from pipelines.datasets import load
from pipelines.datasets.folder import folder, is_other_image, tell_of_others

FILES = {
    "train/wren/b.jpg": (8, 9),
    "train/wren/a.PNG": (8, 9),
    "train/robin/one.jpeg": (4, 4),
    "test/finch/x.jfif": (4, 4),
    "test/crow/y.png": (4, 4),
    "test/crow/z.webp": (4, 4),
}


@pytest.fixture
def birds(tmp_path, write_images):
    return write_images(tmp_path / "birds", FILES)


def test_rows_are_sorted_paths_and_labels_go_on_in_the_test_split(birds):
    dataset = folder(birds)
    assert dataset.name == "folder"
    names = ["train/robin/one.jpeg", "train/wren/a.PNG", "train/wren/b.jpg"]
    assert dataset.train.images.tolist() == [str(birds / name) for name in names]
    assert dataset.train.labels.tolist() == [0, 1, 1] and dataset.train.labels.dtype == np.int64
    assert dataset.train.class_names == {0: "robin", 1: "wren"}
    names = ["test/crow/y.png", "test/crow/z.webp", "test/finch/x.jfif"]
    assert dataset.test.images.tolist() == [str(birds / name) for name in names]
    assert dataset.test.labels.tolist() == [2, 2, 3]
    assert dataset.test.class_names == {2: "crow", 3: "finch"}
    assert not dataset.train.encoded and not dataset.test.encoded


def test_other_files_and_hidden_folders_are_left_alone(birds):
    (birds / "train/wren/notes.txt").write_text("seen in May")
    (birds / "train/readme.md").write_text("birds")
    (birds / "train/.cache").mkdir()
    # As macOS writes them to other file systems.
    (birds / "train/wren/._a.jpg").write_bytes(b"")
    (birds / "train/wren/._a.gif").write_bytes(b"")
    assert folder(birds).train.class_names == {0: "robin", 1: "wren"}
    assert len(folder(birds).train) == 3


def test_images_that_are_not_read_are_told_of(birds, caplog):
    for name in ("fax.gif", "more.GIF", "raw.cr2", "scan.TIF"):
        (birds / f"train/wren/{name}").write_bytes(b"")
    (birds / "train/wren/more.jpg").mkdir()
    (birds / "train/wren/.cache").mkdir()
    assert len(folder(birds).train) == 3
    assert f"1 subfolders of class folders are ignored, for example {birds}/train/wren/more.jpg" in caplog.text
    assert f"4 images in {birds}/train/wren cannot be read and will be skipped: 2 .gif, 1 " in caplog.text


def test_the_printed_command_converts_other_images(tmp_path, caplog):
    photos = tmp_path / "my photos"
    (photos / "mug").mkdir(parents=True)
    for name in ("mug/a b.GIF", "c.bmp", "d.png"):
        Image.new("RGB", (3, 2)).save(photos / name)
    tell_of_others([photos / "mug/a b.GIF", photos / "c.bmp"])
    command = caplog.messages[0].partition("To write a PNG next to each .gif and .bmp, run: ")[2]
    # A user's shell finds the Python of the environment.
    command = command.replace(" python ", f" {shlex.quote(sys.executable)} ")
    subprocess.run(command, shell=True, check=True)
    assert sorted(path.name for path in photos.rglob("*.png")) == ["a b.GIF.png", "c.bmp.png", "d.png"]


def test_heic_is_counted_with_how_to_read_it(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(folder_module, "ENDINGS", (".jpg",))
    for name in ("a.HEIC", "b.heic", "c.avif", "d.jpg"):
        (tmp_path / name).write_bytes(b"")
    assert [path.name for path in sorted(tmp_path.iterdir()) if is_other_image(path)] == ["a.HEIC", "b.heic", "c.avif"]
    tell_of_others([path for path in sorted(tmp_path.iterdir()) if is_other_image(path)])
    (message,) = caplog.messages
    assert message == (
        f"3 images in {tmp_path} cannot be read and will be skipped: 2 .heic, 1 .avif. To read .heic, run pip install "
        "'tfdml[heic]'. To read .avif, run pip install --upgrade pillow."
    )


@pytest.mark.parametrize("data_dir", ["", None])
def test_the_folder_must_be_given(data_dir):
    with pytest.raises(ValueError, match="data_dir is missing.*train/<class>/ and test/<class>/"):
        folder(data_dir)


CLASSES = ("ant", "bee", "cat", "dog", "eel", "fox", "gnu", "hen", "ibis", "jay")


@pytest.fixture
def animals(tmp_path, write_images):
    """Ten class folders of two images, not divided."""
    return write_images(tmp_path / "animals", {f"{name}/{view}.jpg": (4, 4) for name in CLASSES for view in "ab"})


def test_class_folders_are_divided_by_class(animals):
    dataset = load("folder(test_classes=0.3)", data_dir=str(animals))
    classes = dataset.classes()
    assert (len(classes["train"]), len(classes["test"])) == (7, 3)
    assert sorted(classes["train"] + classes["test"]) == list(CLASSES)
    for part, split in dataset.splits().items():
        named = [str(animals / name / f"{view}.jpg") for name in classes[part] for view in "ab"]
        assert split.images.tolist() == named
        assert [split.class_names[label] for label in split.labels] == [name for name in classes[part] for _ in "ab"]


def test_the_seed_divides_and_another_class_moves_few(animals, write_images):
    def tested_with(seed):
        return folder(str(animals), test_classes=0.3, seed=seed).classes()["test"]

    tested = {seed: tested_with(seed) for seed in range(9)}
    assert tested == {seed: tested_with(seed) for seed in range(9)}
    assert len({tuple(names) for names in tested.values()}) > 4
    assert {name for names in tested.values() for name in names} == set(CLASSES)
    write_images(animals, {"kiwi/a.jpg": (4, 4), "kiwi/b.jpg": (4, 4)})
    for seed, names in tested.items():
        now = tested_with(seed)
        assert len(set(now) - set(names)) <= 1 and len(now) == 3


def test_classes_stay_as_they_were_when_one_is_added_and_none_may_be_missing(animals, write_images, caplog):
    spec, data_dir = "folder(test_classes=0.3)", str(animals)
    before = load(spec, data_dir=data_dir)
    write_images(animals, {f"{name}/{view}.jpg": (4, 4) for name in ("aardvark", "yak") for view in "ab"})
    assert load(spec, data_dir=data_dir).classes() != before.classes()
    again = load(spec, data_dir=data_dir, classes=before.classes())
    assert again.classes() == before.classes()
    for one, other in zip(again.splits().values(), before.splits().values(), strict=True):
        assert one.images.tolist() == other.images.tolist()
    assert "2 classes were added after training started and are ignored: aardvark, yak" in caplog.text
    shutil.rmtree(animals / before.classes()["train"][0])
    tested = load(spec, data_dir=data_dir, classes=before.classes(), test_only=True)
    assert tested.test.images.tolist() == before.test.images.tolist()
    with pytest.raises(ValueError, match=f"1 of the run's 7 train classes are missing in {animals}"):
        load(spec, data_dir=data_dir, classes=before.classes())


@pytest.mark.parametrize("share, message", [(0.01, "no class for the test"), (0.99, "no class for training")])
def test_a_share_that_leaves_a_side_empty_is_told(animals, share, message):
    with pytest.raises(ValueError, match=f"test_classes={share} of 10 classes leaves {message}"):
        folder(str(animals), test_classes=share)


def test_folders_that_are_not_divided_are_told_of_the_argument(animals, birds):
    with pytest.raises(FileNotFoundError, match=r"no folders train and test.* 10 class folders .*test_classes=0\.3"):
        folder(str(animals))
    shutil.rmtree(birds / "test")
    with pytest.raises(FileNotFoundError, match=rf"{birds}/test.*--data_dir={birds}/train .*test_classes=0\.3"):
        folder(str(birds))
    shutil.rmtree(birds / "train")
    with pytest.raises(FileNotFoundError, match=r"no folders train and test.*test/<class>/\*\.jpg\.$"):
        folder(str(birds))


def test_folders_that_are_divided_already_are_told(birds, animals, write_images):
    with pytest.raises(ValueError, match="already divided, because it has a folder train .*Remove test_classes: use"):
        folder(str(birds), test_classes=0.3)
    # A class may have such a name.
    write_images(animals, {"train/a.jpg": (4, 4)})
    assert folder(str(animals), test_classes=0.5).undivided.rows.num_classes == 11


@pytest.mark.parametrize("spec", ["folder", "folder(test_classes=1)"])
def test_a_test_alone_is_enough_to_evaluate(birds, spec):
    shutil.rmtree(birds / "train")
    data_dir = str(birds if spec == "folder" else birds / "test")
    dataset = load(spec, data_dir=data_dir, test_only=True)
    assert dataset.train is None and list(dataset.splits()) == ["test"]
    assert len(dataset.test) == 3
    with pytest.raises(ValueError, match=f"only a test split, .* not for training.* {data_dir}/train"):
        load(spec, data_dir=data_dir)


def break_by(change):
    return pytest.param(change, id=change.__name__)


def no_folder(birds):
    shutil.rmtree(birds)
    return birds / "train", "does not exist"


def no_test_folder(birds):
    shutil.rmtree(birds / "test")
    return birds / "test", "does not exist"


def no_class(birds):
    shutil.rmtree(birds / "train")
    (birds / "train").mkdir()
    return birds / "train", "no class folders"


def empty_class(birds):
    (birds / "test/empty").mkdir()
    return birds / "test/empty", "has no images"


def flat_folder(birds):
    for path in list((birds / "train").glob("*/*.*")):
        path.rename(birds / "train" / f"{path.parent.name}-{path.name}")
    for path in list((birds / "train").iterdir()):
        if path.is_dir():
            shutil.rmtree(path)
    return birds / "train", r"has \d images and no class folders.*use --dataset=photos --sampler=auto"


def folders_in_class_folders(birds):
    (birds / "train/wren/nest").mkdir()
    for path in list((birds / "train/wren").glob("*.*")):
        path.rename(birds / "train/wren/nest" / path.name)
    told = "are in subfolders, such as .*wren/nest/.*. Move them up.*use --dataset=photos --sampler=auto"
    return birds / "train/wren", told


def class_of_text_files(birds):
    (birds / "train/texts").mkdir()
    (birds / "train/texts/a.txt").write_text("")
    return birds / "train/texts", "files with one of the extensions .jpg"


def text_called_image(birds):
    (birds / "train/wren/c.jpg").write_text("not a picture")
    return birds / "train/wren/c.jpg", "not a readable image"


def zero_bytes(birds):
    (birds / "test/finch/zero.png").write_bytes(b"")
    return birds / "test/finch/zero.png", "not a readable image"


def broken_link(birds):
    (birds / "test/finch/link.png").symlink_to(birds / "nowhere.png")
    return birds / "test/finch/link.png", "1 of 4 listed images are missing"


def bmp_under_another_name(birds):
    path = birds / "train/wren/paint.png"
    Image.new("RGB", (8, 8)).save(path, "BMP")
    return path, "is a BMP file, which tfdml does not read; save it as JPEG or PNG"


CHANGES = (no_folder, no_test_folder, no_class, empty_class, class_of_text_files, text_called_image, zero_bytes)
CHANGES += (broken_link, bmp_under_another_name, flat_folder, folders_in_class_folders)


@pytest.mark.parametrize("change", [break_by(change) for change in CHANGES])
def test_what_is_wrong_is_told_with_its_path(birds, change):
    path, message = change(birds)
    with pytest.raises((ValueError, FileNotFoundError), match=message) as error:
        load("folder", data_dir=str(birds))
    assert str(path) in str(error.value)


def test_classes_in_both_splits_are_told(birds, write_images):
    write_images(birds, {"test/wren/w.jpg": (4, 4), "test/robin/r.jpg": (4, 4)})
    with pytest.raises(ValueError, match=f"{birds} has 2 in both: robin, wren"):
        folder(birds)
