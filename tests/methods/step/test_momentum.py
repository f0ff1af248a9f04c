"""The queue has embeddings by an average of past weights."""

import keras
import numpy as np
import pytest

import tfdml
from tests.methods.models import small_model


@pytest.fixture
def images():
    batches = np.random.default_rng(0).normal(size=(3, 8, 8, 8, 3)).clip(-2, 2)
    return batches.astype("float32"), np.tile(np.arange(4), 2)


def trained(images, memory):
    """A model, the weights before each of its steps, and the losses."""
    batches, labels = images
    keras.utils.set_random_seed(0)
    model = small_model(freeze_batch_norm="all")
    model.compile(keras.optimizers.SGD(0.5), "contrastive", memory=memory)
    model(batches[0])
    weights, losses = [], []
    for batch in batches:
        weights.append(model.get_weights())
        losses.append(float(model.train_on_batch(batch, labels, return_dict=True)["loss"]))
    return model, weights, losses


def test_keys_are_embeddings_by_the_average_of_weights(images):
    batches, labels = images
    model, weights, _ = trained(images, tfdml.memories.Momentum(size=24, decay=0.75))
    stored, names = (variable.numpy() for variable in model.past_batches.variables[:2])
    average, expected = weights[0], []
    for batch, before in zip(batches, weights, strict=True):
        average = [0.75 * each + 0.25 * now for each, now in zip(average, before, strict=True)]
        model.set_weights(average)
        expected.insert(0, model(batch).numpy())
    np.testing.assert_allclose(stored, np.concatenate(expected), atol=1e-5)
    np.testing.assert_array_equal(names, np.tile(labels, 3))
    assert np.abs(expected[0] - expected[1]).max() > 1e-3 and not any(
        "momentum" in each.path for each in model.variables
    )


@pytest.mark.nightly
def test_without_decay_it_is_the_cross_batch_memory(images):
    _, _, losses = trained(images, "momentum(size=24, decay=0.0)")
    np.testing.assert_allclose(losses, trained(images, "xbm(size=24, start=0)")[2], rtol=1e-5)
    assert not np.allclose(losses, trained(images, "momentum(size=24, decay=0.99)")[2], rtol=1e-4)


@pytest.mark.nightly
def test_a_model_that_is_loaded_has_the_memory_again(images, tmp_path):
    model, _, _ = trained(images, "momentum(size=24, decay=0.75)")
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert loaded.past_batches.memory == tfdml.memories.Momentum(size=24, start=0, decay=0.75)
