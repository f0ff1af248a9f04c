"""The first image that cannot be read is found, and errors name it."""

import numpy as np
import pytest
import tensorflow as tf

import tfdml
from pipelines.build import evaluation_batches
from pipelines.datasets import Split
from pipelines.preprocessor import Preprocessor
from pipelines.reading import unreadable
from pipelines.reading.unreadable import find_unreadable, find_unreadable_class, naming_unreadable
from tests.pipelines.image_files import encoded, noise
from tfdml.backbones import Small

SQUARE = tf.zeros([20, 20, 3], tf.uint8)
JPEG, PNG = tf.io.encode_jpeg(SQUARE).numpy(), tf.io.encode_png(SQUARE).numpy()
PREPARE = Preprocessor(transform="warp", image_size=16, mean=(127.5,) * 3, std=(64.0,) * 3, channels="rgb")
BAD = {"JPEG": JPEG[: len(JPEG) // 2], "PNG": PNG[: len(PNG) // 2], "text": b"no image", "nothing": b""}


@pytest.fixture(scope="module")
def model():
    model = tfdml.Single(Small(width=2, stages=1), embedding_size=4)
    model.compile("sgd", loss="proxy_nca(classes=4)")
    return model


@pytest.fixture
def looked_at(monkeypatch):
    """The rows that were decoded to find one that cannot be read."""
    rows, image_of = [], unreadable.image_of
    monkeypatch.setattr(unreadable, "image_of", lambda split, row: (rows.append(row), image_of(split, row))[1])
    return rows


def split_of(images):
    return Split(np.array(images, dtype=object), np.arange(len(images)))


def batches(split, first=0):
    images = evaluation_batches(split, PREPARE, batch_size=4)
    return images.map(lambda image: (image, first + tf.range(4)))


@pytest.mark.parametrize("what, does", [*((what, "fit") for what in BAD), ("JPEG", "evaluate"), ("JPEG", "predict")])
@pytest.mark.few_by_day(3)
def test_a_bad_image_is_named_whatever_reads_it(model, looked_at, what, does):
    split = split_of([JPEG] * 6 + [BAD[what]] + [JPEG])
    with pytest.raises(ValueError, match="Cannot read .*6.*Replace it or remove it"):
        with naming_unreadable(None, [split], tolerant=False):
            getattr(model, does)(batches(split), verbose=0)
    assert 6 in looked_at


def test_a_missing_file_is_named(model):
    split = split_of(["/no/such/file.jpg"] * 4)
    with pytest.raises(ValueError, match="Cannot read /no/such/file.jpg: .*No such file"):
        with naming_unreadable(None, [split], tolerant=False):
            model.predict(batches(split), verbose=0)


def test_no_image_is_decoded_for_an_error_of_the_model(model, looked_at):
    split = split_of([JPEG] * 7 + [BAD["JPEG"]])
    with pytest.raises(ValueError, match="has 4 classes.* labels from 0 to 3"):
        with naming_unreadable(split, [], tolerant=False):
            model.fit(batches(split, first=1).take(1), verbose=0)
    assert looked_at == []


class TestFindUnreadable:
    GOOD = encoded(noise(9, 13), "PNG")

    def test_truncated_bytes(self):
        images = np.array([self.GOOD, self.GOOD, self.GOOD[:60], b""], dtype=object)
        row, reason = find_unreadable(Split(images, np.arange(4)))
        assert row == 2 and reason and "\n" not in reason

    def test_paths(self, tmp_path):
        contents = {"good.png": self.GOOD, "cut.jpg": encoded(np.zeros((64, 64, 3)), "JPEG")[:-300], "text.png": b"no"}
        for name, content in contents.items():
            (tmp_path / name).write_bytes(content)
        for name in ("cut.jpg", "text.png", "absent.png"):
            paths = np.array([str(tmp_path / "good.png"), str(tmp_path / name)], dtype=object)
            row, reason = find_unreadable(Split(paths, np.arange(2)))
            assert row == 1 and len(reason) > 10

    def test_nothing_to_find(self):
        assert find_unreadable(Split(np.array([self.GOOD] * 2, dtype=object), np.arange(2))) is None

    def test_a_class_without_a_good_image(self):
        bad, labels = b"no", np.array([2, 1, 1, 2, 1, 2, 0])
        images = np.array([bad, self.GOOD, bad, bad, bad, bad, self.GOOD], dtype=object)
        rows, reason = find_unreadable_class(Split(images, labels))
        assert rows.tolist() == [0, 3, 5] and "not a JPEG" in reason
        images[5] = self.GOOD
        assert find_unreadable_class(Split(images, labels)) is None
