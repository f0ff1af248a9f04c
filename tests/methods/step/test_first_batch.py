"""A model warns of pixels that cannot be its own, and of a first batch from which it cannot learn."""

import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfdml
from pipelines.preprocessing import Preprocessing, why_not_prepared
from tests.methods.models import small_model

RANGES = {
    "-2 to 2": Preprocessing(image_size=8, mean=(127.5,) * 3, std=(63.75,) * 3).range(),
    "ImageNet": Preprocessing(image_size=8, mean=(123.675, 116.28, 103.53), std=(58.395, 57.12, 57.375)).range(),
    "0 to 1": Preprocessing(image_size=8).range(),
    "-1 to 1": Preprocessing(image_size=8, mean=(127.5,) * 3, std=(127.5,) * 3).range(),
    "Caffe": Preprocessing(image_size=8, mean=(104, 117, 123), std=(1,) * 3).range(),
}
BATCHES = {"0 to 255": (0, 255), "0 to 1": (0.0, 1.0), "-1 to 1": (-1.0, 1.0)}


@pytest.mark.parametrize("pixels", BATCHES)
@pytest.mark.parametrize("own", RANGES)
def test_foreign_pixels_are_told_from_a_models_own(own, pixels):
    assert (why_not_prepared(*BATCHES[pixels], RANGES[own]) is None) == (own == pixels)


@pytest.mark.parametrize("own", RANGES)
def test_a_models_own_pixels_give_no_alarm(own):
    low, high = RANGES[own]
    random = np.random.default_rng(0)
    for _ in range(1000):
        # Batches from two to all grey levels, of any brightness.
        ends = np.sort(random.choice(256, 2, replace=False)) / 255 * (high - low) + low
        if abs(ends[0]) > 0.05 and abs(ends[0] + 1) > 0.05 or abs(ends[1] - 1) > 0.05:
            assert why_not_prepared(*ends, RANGES[own]) is None
    assert why_not_prepared(low, high, RANGES[own]) is None and why_not_prepared(0.0, 0.0, RANGES[own]) is None


@pytest.mark.parametrize("use", ["call", "predict", "predict on a dataset", "predict_on_batch"])
def test_a_model_warns_once_of_pixels_that_cannot_be_its_own(use):
    model = tfdml.Single(tfdml.backbones.Small(width=4, stages=1), embedding_size=4)
    images = np.random.default_rng(0).uniform(-2, 2, (4, 8, 8, 3)).astype(np.float32)
    uses = {
        "call": lambda images: model(images),
        "predict": lambda images: model.predict(images, verbose=0),
        "predict on a dataset": lambda images: model.predict(
            tf.data.Dataset.from_tensor_slices(images).batch(2), verbose=0
        ),
        "predict_on_batch": lambda images: model.predict_on_batch(images),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        uses[use](images)
        uses[use](np.zeros_like(images))
    with pytest.warns(UserWarning, match=r"Expected values from -2 to 2. Received: values from .* to 2.*tfdml.load"):
        uses[use]((images + 2) * 63.75)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        uses[use](images * 60)


def test_a_network_of_the_users_own_declares_what_it_takes():
    model = tfdml.Single(keras.Sequential([keras.layers.Flatten()]), embedding_size=4)
    images = np.random.default_rng(0).uniform(0, 255, (4, 4, 4, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        model(images)
    model.preprocessing = Preprocessing(image_size=4)
    with pytest.warns(UserWarning, match="Expected values from 0 to 1"):
        model(images)


LABELS = np.repeat(np.arange(4), 4)


def fitted(images, labels, *, loss="triplet", dataset=False, batch_size=16, **options):
    """Trains a small model for two epochs in order, from arrays or a dataset, and returns it with its warnings."""
    model = small_model()
    model.compile("sgd", loss=loss, **options)
    given = {"x": images, "y": labels, "batch_size": batch_size, "shuffle": False}
    if dataset:
        given = {"x": tf.data.Dataset.from_tensor_slices((images, labels)).batch(batch_size), "shuffle": False}
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", UserWarning)
        model.fit(**given, epochs=2, verbose=0)
        model.fit(**given, verbose=0)
    return model, [str(each.message) for each in told if each.category is UserWarning]


def images_from(low, high):
    return np.random.default_rng(0).uniform(low, high, (16, 12, 12, 3)).astype("float32")


@pytest.mark.slow
@pytest.mark.parametrize("dataset, run_eagerly", [(False, True), (True, False)])
@pytest.mark.few_by_day(1)
def test_fit_warns_once_of_pixels_on_another_scale(dataset, run_eagerly):
    for images, received in (
        (images_from(0, 255).astype("uint8"), "outside of this model's range. Expected values from -2 to 2"),
        (images_from(0, 1), "scaled to 0 to 1, which is not this model's range"),
    ):
        _, told = fitted(images, LABELS, dataset=dataset, run_eagerly=run_eagerly)
        assert len(told) == 1 and received in told[0] and "tfdml.data.pxk" in told[0]


@pytest.mark.slow
@pytest.mark.parametrize(
    "labels, batch_size, words, dataset",
    [
        (LABELS, 1, "has a single image, so Triplet has no pair", False),
        (LABELS, 4, "has images of one class only, so Triplet has no negative pair", True),
        (np.arange(16) % 8, 8, "has no two images of the same class, so Triplet has no positive pair", False),
    ],
)
@pytest.mark.few_by_day(2)
def test_fit_warns_once_of_a_first_batch_without_pairs(labels, batch_size, words, dataset):
    _, told = fitted(images_from(-2, 2), labels, batch_size=batch_size, dataset=dataset)
    assert len(told) == 1 and words in told[0] and "tfdml.data.pxk" in told[0]


@pytest.mark.nightly
def test_fit_warns_once_of_equal_embeddings():
    _, told = fitted(np.zeros((16, 12, 12, 3), "float32"), LABELS)
    assert len(told) == 1 and "All embeddings of the first batch are equal" in told[0]


@pytest.mark.nightly
@pytest.mark.parametrize(
    "labels, options",
    [
        (LABELS, {}),
        pytest.param(LABELS, {"jit_compile": True}, marks=pytest.mark.slow),
        (LABELS, {"steps_per_execution": 2, "batch_size": 8}),
        (LABELS, {"loss": "proxy_anchor(classes=4)", "batch_size": 1}),
        (np.arange(16), {"memory": "xbm(size=64)"}),
        (np.repeat(np.arange(8), 2) % 2, {"loss": keras.losses.Circle()}),
    ],
)
def test_fit_warns_of_no_good_input(labels, options):
    assert fitted(images_from(-2, 2), labels, **options)[1] == []


@pytest.mark.nightly
def test_what_a_step_notes_changes_no_training(monkeypatch):
    images = images_from(-2, 2)
    keras.utils.set_random_seed(0)
    noting, _ = fitted(images, LABELS)
    monkeypatch.setattr(type(noting.first_batch), "note", lambda *of: None)
    keras.utils.set_random_seed(0)
    without, _ = fitted(images, LABELS)
    for one, other in zip(noting.variables, without.variables, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.slow
@pytest.mark.few_by_day(1)
def test_the_first_step_is_looked_at_and_no_other(monkeypatch):
    looked = []
    checked = type(small_model().first_batch).check
    monkeypatch.setattr(type(small_model().first_batch), "check", lambda self: (looked.append(0), checked(self)))
    model, _ = fitted(images_from(-2, 2), LABELS, batch_size=8)
    assert len(looked) == 2
    for _ in range(3):
        model.train_on_batch(images_from(-2, 2), LABELS)
    assert len(looked) == 2
