import shutil

import numpy as np
import pytest
from PIL import Image

from pipelines.datasets import folder, load
from tfdml import registry

FILES = {
    "train/wren/b.jpg": (8, 9),
    "train/wren/a.PNG": (8, 9),
    "train/robin/one.jpeg": (4, 4),
    "test/finch/x.bmp": (4, 4),
    "test/crow/y.gif": (4, 4),
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
    names = ["test/crow/y.gif", "test/crow/z.webp", "test/finch/x.bmp"]
    assert dataset.test.images.tolist() == [str(birds / name) for name in names]
    assert dataset.test.labels.tolist() == [2, 2, 3]
    assert dataset.test.class_names == {2: "crow", 3: "finch"}
    assert not dataset.train.encoded and not dataset.test.encoded


def test_the_registry_makes_it(birds):
    assert len(registry.create("dataset", "folder", data_dir=str(birds)).train) == 3


def test_other_files_and_hidden_folders_are_left_alone(birds):
    (birds / "train/wren/notes.txt").write_text("seen in May")
    (birds / "train/readme.md").write_text("birds")
    (birds / "train/.cache").mkdir()
    assert folder(birds).train.class_names == {0: "robin", 1: "wren"}
    assert len(folder(birds).train) == 3


def test_images_that_are_not_read_are_told_of(birds, caplog):
    (birds / "train/wren/scan.TIF").write_bytes(b"")
    (birds / "train/wren/more").mkdir()
    (birds / "train/wren/.cache").mkdir()
    assert len(folder(birds).train) == 3
    assert f"2 entries of class folders are left out, first {birds}/train/wren/" in caplog.text


@pytest.mark.parametrize("data_dir", ["", None])
def test_the_folder_must_be_given(data_dir):
    with pytest.raises(ValueError, match="needs --data_dir.*train/<class>/ and test/<class>/"):
        folder(data_dir)


def break_by(change):
    return pytest.param(change, id=change.__name__)


def no_folder(birds):
    shutil.rmtree(birds)
    return birds / "train", "No folder"


def no_test_folder(birds):
    shutil.rmtree(birds / "test")
    return birds / "test", "No folder"


def no_class(birds):
    shutil.rmtree(birds / "train")
    (birds / "train").mkdir()
    return birds / "train", "no class folders"


def empty_class(birds):
    (birds / "test/empty").mkdir()
    return birds / "test/empty", "has no images"


def class_of_text_files(birds):
    (birds / "train/texts").mkdir()
    (birds / "train/texts/a.txt").write_text("")
    return birds / "train/texts", "files ending in .jpg"


def text_called_image(birds):
    (birds / "train/wren/c.jpg").write_text("not a picture")
    return birds / "train/wren/c.jpg", "no readable image"


def zero_bytes(birds):
    (birds / "test/finch/zero.png").write_bytes(b"")
    return birds / "test/finch/zero.png", "no readable image"


def broken_link(birds):
    (birds / "test/finch/link.png").symlink_to(birds / "nowhere.png")
    return birds / "test/finch/link.png", "no readable image"


def palette_bmp(birds):
    path = birds / "test/finch/palette.bmp"
    Image.new("RGB", (8, 8), (200, 10, 10)).convert("P").save(path)
    return path, "BMP with a palette"


def black_and_white_bmp_under_another_name(birds):
    path = birds / "train/wren/fax.png"
    Image.new("1", (8, 8)).save(path, "BMP")
    return path, "BMP with a palette"


CHANGES = (no_folder, no_test_folder, no_class, empty_class, class_of_text_files, text_called_image, zero_bytes)
CHANGES += (broken_link, palette_bmp, black_and_white_bmp_under_another_name)


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


def test_grey_bmp_is_fine(birds):
    Image.new("L", (8, 8), 7).save(birds / "test/finch/grey.bmp")
    assert len(folder(birds).test) == 4
