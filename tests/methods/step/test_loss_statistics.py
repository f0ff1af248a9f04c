"""Statistics of an epoch stay while Keras evaluates in it."""

import keras
import numpy as np
import pytest

import tfdml


def found_by_epoch(validates):
    """The statistics at the end of each of two epochs, and behind them."""
    keras.utils.set_random_seed(0)
    images, labels = np.random.default_rng(0).normal(size=(16, 8, 8, 3)).astype(np.float32), np.repeat(np.arange(4), 4)
    model = tfdml.Single(keras.Sequential([keras.layers.Conv2D(8, 3, activation="relu")]), embedding_size=6)
    model.compile("sgd", loss="triplet")
    found = []
    ends = keras.callbacks.LambdaCallback(on_epoch_end=lambda *_: found.append(model.loss_statistics()))
    validation = (images[:8], labels[:8]) if validates else None
    model.fit(images, labels, batch_size=16, epochs=2, verbose=0, callbacks=[ends], validation_data=validation)
    return [*found, model.loss_statistics()]


@pytest.mark.slow
def test_validation_leaves_what_the_loss_found_in_training():
    expected = found_by_epoch(validates=False)
    assert expected[0]["mined_positives"] == 3.0 and expected[0] != expected[1] == expected[2]
    assert found_by_epoch(validates=True) == expected
