"""A model warns of pixels that cannot be its own."""

import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfdml
from pipelines.preprocessing import Preprocessing, why_not_prepared

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
    with pytest.warns(UserWarning, match=r"expected numbers from -2 to 2, received .* to 2.*tfdml.load"):
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
    with pytest.warns(UserWarning, match="expected numbers from 0 to 1"):
        model(images)
