"""The features of a backbone as they are: what they are, and that they learn."""

import keras
import numpy as np
import pytest

import tfdml
from tfdml.heads import Linear


@pytest.fixture
def backbone():
    keras.utils.set_random_seed(0)
    return tfdml.backbones.Small(width=8, stages=2)


@pytest.mark.parametrize("pooling, pool", [("avg", np.mean), ("max", np.max)])
def test_they_are_the_pooled_features_at_unit_length(batch, backbone, pooling, pool):
    model = tfdml.Features(backbone, head=Linear(pooling))
    pooled = pool(np.asarray(backbone(batch[0])), axis=(1, 2))
    expected = pooled / np.linalg.norm(pooled, axis=1, keepdims=True)
    np.testing.assert_allclose(model(batch[0]), expected, atol=1e-6)
    assert model.learners_shape == (1, pooled.shape[1])
    # There is nothing but the backbone.
    assert {id(weight) for weight in model.weights} == {id(weight) for weight in backbone.weights}


@pytest.mark.slow
def test_the_backbone_learns_through_them(batch, backbone):
    model = tfdml.Features(backbone)
    model.compile(keras.optimizers.Adam(0.01), loss="triplet(mining='all')")
    losses = model.fit(*batch, batch_size=16, epochs=8, shuffle=False, verbose=0).history["loss"]
    assert losses[-1] < 0.8 * losses[0]


def test_features_of_vectors(batch):
    flat = keras.Sequential([keras.layers.Flatten()])
    pixels = batch[0].reshape(16, -1)
    found = tfdml.Features(flat)(batch[0])
    np.testing.assert_allclose(found, pixels / np.linalg.norm(pixels, axis=1, keepdims=True), atol=1e-6)


def test_it_has_no_size():
    with pytest.raises((TypeError, ValueError), match="embedding_size"):
        tfdml.Features(tfdml.backbones.Small(width=8, stages=2), embedding_size=64)
