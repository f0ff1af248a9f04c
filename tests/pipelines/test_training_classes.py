"""The training classes of another dataset alone."""

import numpy as np
import pytest

from pipelines.datasets import load
from pipelines.labels import training_classes
from tfdml import registry

CLASSES = ("ant", "bee", "cat", "dog", "eel", "fox", "gnu", "hen")


@pytest.fixture
def animals(tmp_path, write_images):
    """Five training classes and three of the test, whose images are none."""
    files = {
        f"{'train' if name < 'f' else 'test'}/{name}/{number}.jpg": (8, 8) for name in CLASSES for number in (1, 2)
    }
    folder = write_images(tmp_path / "animals", files)
    for path in folder.glob("test/*/*.jpg"):
        path.write_text("no image")
    return folder


SPEC = "training_classes(dataset='folder', held_out=0.4, seed=1)"


def names(split):
    return sorted(split.class_names[label] for label in np.unique(split.labels))


def test_classes_are_those_that_validation_holds_out(animals):
    found = load(SPEC, data_dir=str(animals))
    train, held_out = registry.create("dataset", "folder", data_dir=str(animals)).hold_out(0.4, 1)
    assert found.train.images.tolist() == train.images.tolist()
    assert found.test.images.tolist() == held_out.images.tolist()
    assert names(found.train) + names(found.test) != sorted(CLASSES[:5])
    assert sorted(names(found.train) + names(found.test)) == sorted(CLASSES[:5])
    assert found.undivided is None and found.look_inside and found.protocol == "self_retrieval"


def test_images_of_the_test_are_not_opened(animals):
    with pytest.raises(ValueError, match="is not a readable image"):
        load("folder", data_dir=str(animals))
    assert len(load(SPEC, data_dir=str(animals)).train) == 6


def test_listed_images_of_the_test_may_be_gone(animals):
    rows = [f"{path.relative_to(animals)},{path.parent.name},{path.parts[-3]}" for path in animals.glob("*/*/*.jpg")]
    (animals / "all.csv").write_text("\n".join(["path,label,split", *rows]))
    for path in animals.glob("test/*/*.jpg"):
        path.unlink()
    with pytest.raises(FileNotFoundError):
        load("csv(path='all.csv')", data_dir=str(animals))
    spec = SPEC.replace("'folder'", "\"csv(path='all.csv')\"")
    found = load(spec, data_dir=str(animals))
    assert found.protocol == "query_gallery" and len(found.train) + len(found.test) == 10


def test_images_are_left_out_by_their_names_in_the_other_dataset(tmp_path):
    """Rows of encoded images have numbers for names, which are others in a part of the rows."""
    about = "toycars(classes=10, images_per_class=2, image_size=24)"
    whole = registry.create("dataset", about, data_dir=str(tmp_path))
    (tmp_path / "bad.txt").write_text("train#3\n")
    spec = f"training_classes(dataset={about!r}, held_out=0.4, ignore_images={str(tmp_path / 'bad.txt')!r})"
    found = load(spec, data_dir=str(tmp_path))
    left = {*found.train.images, *found.test.images}
    assert left == {*whole.train.images} - {whole.train.images[3]} and len(left) == len(whole.train) - 1


def test_what_cannot_be_measured_is_refused(animals):
    with pytest.raises(ValueError, match="held_out=0.2 of 5 training classes holds out 1 class. Expected at least 2"):
        training_classes("folder", data_dir=str(animals))
    with pytest.raises(ValueError, match="fraction of 0.01 of the 5 training classes leaves one side without classes"):
        training_classes("folder", held_out=0.01, data_dir=str(animals))
    with pytest.raises(ValueError, match="has no training images"):
        training_classes("folder(test_classes=1)", data_dir=str(animals / "train"))
