"""Embeddings that keep their length, as in Lifted Structure."""

import keras
import numpy as np
import pytest

import tfdml


@pytest.mark.slow
def test_embeddings_may_keep_their_length(tmp_path):
    images = np.random.default_rng(0).normal(size=(16, 12, 12, 3)).astype(np.float32)
    model = tfdml.Single(tfdml.backbones.Small(width=8, stages=2), embedding_size=16, normalize=False)
    model.compile("sgd", loss="lifted_structure", run_eagerly=True)
    model.fit(images, np.repeat(np.arange(4), 4), batch_size=8, verbose=0)
    projected = model.head.projection(keras.ops.mean(model.backbone(images), axis=(1, 2)))
    assert np.ptp(np.linalg.norm(projected, axis=1)) > 1e-3
    np.testing.assert_allclose(model(images), projected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(model.predict(images, verbose=0), projected, rtol=1e-5, atol=1e-6)
    model.save(tmp_path / "model.keras")
    np.testing.assert_array_equal(keras.models.load_model(tmp_path / "model.keras")(images), model(images))


def test_measured_distances_are_those_of_the_embeddings_as_they_are():
    images, labels = np.random.default_rng(0).normal(size=(8, 12, 12, 3)).astype(np.float32), np.repeat([0, 1], 4)
    model = tfdml.Single(tfdml.backbones.Small(width=8, stages=2), embedding_size=16, normalize=False)
    model.compile("sgd", loss="lifted_structure")
    logs = model.evaluate(images, labels, batch_size=8, verbose=0, return_dict=True)
    embeddings = model(images).numpy()
    apart = np.linalg.norm(embeddings[:4, None] - embeddings[None, 4:], axis=-1).mean()
    assert abs(np.linalg.norm(embeddings, axis=1).mean() - 1.0) > 0.1
    np.testing.assert_allclose(logs["negative_distance"], apart, rtol=1e-3)
