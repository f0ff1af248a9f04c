"""Images with several labels: read from a table, drawn so that batches cover all labels, and given as booleans."""

import numpy as np
import pytest
import tensorflow as tf

from pipelines.build import training_batches
from pipelines.datasets import Split, load
from pipelines.sampling import PxK
from tests.pipelines.sampling.test_sampling import batches
from tests.pipelines.tiny_datasets import picture
from tfdml import registry
from tfdml.console.settings import BatchSettings
from tfdml.run.training.run_sampler import check_pairs

TABLE = """path,label,split
a.jpg,red; round ,train
b.jpg,red,train
c.jpg,blue;round;big,test
d.jpg,big;;,test
"""


@pytest.fixture
def table(tmp_path):
    def write(text):
        (tmp_path / "rows.csv").write_text(text)
        for name in "abcd":
            picture(tmp_path / f"{name}.jpg", (1, 2, 3))
        return f"csv(path='{tmp_path}/rows.csv', separator=';')"

    return write


def test_labels_of_an_image_are_divided(table):
    dataset = load(table(TABLE))
    assert dataset.test.attribute_names == ("big", "blue", "red", "round")
    assert dataset.train.attributes.tolist() == [[False, False, True, True], [False, False, True, False]]
    assert dataset.test.attributes.tolist() == [[True, True, False, True], [True, False, False, False]]
    assert not dataset.has_classes and dataset.protocol == "several_labels"
    train, held = dataset.hold_out(0.5, seed=0)
    assert len(train.attributes) == len(held.attributes) == 1


@pytest.mark.parametrize(
    "old, new, message",
    [
        (
            "b.jpg,red",
            "b.jpg,;",
            r"rows.csv, line 3: the image has no label .1 images in all.. Expected at least one.*by ';'",
        ),
        ("b.jpg,red", "b.jpg,", "line 3: label is empty"),
        ("", "", "multi-label images are not divided by class"),
    ],
)
def test_an_image_without_a_label_is_one_line(table, old, new, message):
    spec = table(TABLE.replace(old, new, 1))
    with pytest.raises(ValueError, match=message):
        load(spec if old else spec.replace(")", ", test_classes=0.5)"))


@pytest.fixture
def split():
    random = np.random.default_rng(0)
    attributes = random.random((30, 6)) < [0.1, 0.2, 0.3, 0.5, 0.7, 0.1]
    return Split(np.array([f"{row}.jpg" for row in range(30)], object), np.arange(30), attributes=attributes)


def test_batches_cover_all_labels(split):
    sampler = PxK(3, 2)
    sampler.bind_split(split)
    drawn, times = np.zeros(6, int), np.zeros((6, 30), int)
    for rows in batches(sampler, range(60)).reshape(60, 3, 2):
        labels = [np.flatnonzero(split.attributes[pair].all(axis=0)) for pair in rows]
        assert all(len(each) and one != other for each, (one, other) in zip(labels, rows, strict=True))
    counts = split.attributes.sum(axis=0)
    # Which label a pair was drawn for is told by the place of the class: each comes once before any comes twice.
    places = np.concatenate([[label] * count for label, count in enumerate(counts)])
    plain = PxK(3, 2)
    plain.bind(places)
    for rows, of_places in zip(batches(sampler, range(60)), batches(plain, range(60)), strict=True):
        labels, carriers = places[of_places], np.nonzero(split.attributes.T)[1][of_places]
        np.testing.assert_array_equal(rows, carriers)
        np.add.at(drawn, labels[::2], 1)
        np.add.at(times, (labels, carriers), 1)
    assert np.ptp(drawn) <= 1
    for label, of_label in enumerate(times):
        assert np.ptp(of_label[split.attributes[:, label]]) <= 1


def test_batches_have_booleans(split):
    sampler = PxK(3, 2)
    sampler.bind_split(split)
    step = tf.Variable(0, dtype=tf.int64)
    options = {"seed": 0, "step": step, "steps_per_epoch": 2, "read": lambda row: tf.cast(row, tf.float32)}
    for images, labels in training_batches(split, sampler, lambda row, seed: row, **options):
        assert labels.dtype == tf.bool
        np.testing.assert_array_equal(labels, split.attributes[images.numpy().astype(int)])


def test_losses_with_classes_and_batches_without_pairs_are_told(split):
    sampler = PxK(3, 2)
    sampler.bind_split(split)
    settings = BatchSettings()
    check_pairs(registry.create("loss", "triplet"), sampler, split.attributes, settings, 0)
    proxies = registry.create("loss", "proxy_anchor(classes=30)")
    with pytest.raises(ValueError, match="has one variable per class, but these images are multi-label"):
        check_pairs(proxies, sampler, split.attributes, settings, 0)
    uniform = registry.create("sampler", "uniform(batch_size=2)")
    uniform.bind(np.arange(30))
    with pytest.raises(ValueError, match="two images with half of their labels in common"):
        check_pairs(registry.create("loss", "triplet"), uniform, np.eye(30, dtype=bool), settings, 0)
