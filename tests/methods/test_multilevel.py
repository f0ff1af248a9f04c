"""Embeddings of several depths."""

import keras
import numpy as np
import pytest

import tfdml
from tests.run_helpers import train
from tfdml.losses import RankedListSimpler

LEVELS = ("stage1", "stage2", "stage3")


@pytest.fixture
def batch():
    rng = np.random.default_rng(0)
    return rng.normal(size=(16, 24, 24, 3)).astype(np.float32), np.repeat(np.arange(4), 4)


def make_model(**arguments):
    arguments = {"endpoints": LEVELS, "embedding_size": 24, "reduced": 8, "hidden": 16, **arguments}
    return tfdml.methods.Multilevel(tfdml.backbones.Small(width=8, stages=3), **arguments)


def test_each_level_is_a_learner_with_the_loss_of_its_own(batch):
    images, labels = batch
    model = make_model()
    learners = model.learner_embeddings(images)
    assert learners.shape == (16, 3, 8)
    np.testing.assert_allclose(np.linalg.norm(learners, axis=-1), 1.0, atol=1e-5)
    np.testing.assert_allclose(model(images), np.reshape(learners, (16, 24)) / np.sqrt(3), atol=1e-6)
    loss = RankedListSimpler()
    model.compile("sgd", loss=loss)
    expected = sum(np.asarray(loss.call(labels, learners[:, level])) for level in range(3))
    np.testing.assert_allclose(model.loss_values({"label": labels}, learners), expected, rtol=1e-6)


def test_a_level_sees_nothing_deeper_than_its_endpoint(batch):
    model = make_model()
    before = np.asarray(model.learner_embeddings(batch[0]))
    deepest = model.backbone.get_layer("stage3_conv2")
    deepest.kernel.assign(np.random.default_rng(1).normal(size=deepest.kernel.shape))
    after = np.asarray(model.learner_embeddings(batch[0]))
    np.testing.assert_array_equal(before[:, :2], after[:, :2])
    assert np.abs(before[:, 2] - after[:, 2]).max() > 0.01


@pytest.mark.slow
def test_saved_model_goes_on_as_it_was(batch, tmp_path):
    model = make_model()
    model(batch[0])
    model.compile(keras.optimizers.Adam(0.01), loss=RankedListSimpler())
    losses = model.fit(*batch, batch_size=16, epochs=8, verbose=0).history["loss"]
    assert losses[-1] < losses[0]
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded.predict(batch[0], verbose=0), model.predict(batch[0], verbose=0))
    assert loaded.endpoints == LEVELS and int(loaded.optimizer.iterations) == 8


def test_pooling_norm_and_dropout_of_levels(batch, tmp_path):
    model = make_model(head=tfdml.heads.Linear(pooling="max", norm="layer", dropout=0.5))
    model(batch[0])
    learners = model.learner_embeddings(batch[0])
    features = np.asarray(model.levels(batch[0])[-1]).max(axis=(1, 2))
    features = (features - features.mean(axis=1, keepdims=True)) / np.sqrt(features.var(axis=1, keepdims=True) + 1e-3)
    projection = model.head.projections[-1]
    expected = features @ np.asarray(projection.kernel)
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(learners[:, -1], expected, atol=1e-4)
    assert sum("norm" in weight.path and "features/norm" in weight.path for weight in model.trainable_weights) == 6
    dropped = model.learner_embeddings(batch[0], training=True)
    assert all(np.abs(dropped - learners)[:, level].max() > 0.01 for level in range(3))
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(again.learner_embeddings(batch[0]), model.learner_embeddings(batch[0]))
    with pytest.raises(ValueError, match="'none', 'batch', 'layer'; received 'group'"):
        make_model(head=tfdml.heads.Linear(norm="group"))


def test_an_unknown_endpoint_is_told():
    with pytest.raises(ValueError, match="Unknown endpoint 'inception_3c' of small. Known: stage1, stage2, stage3"):
        make_model(endpoints=("inception_3c", "stage3"))


def test_one_level_is_no_case_for_it():
    with pytest.raises(ValueError, match="endpoints to be None or a tuple of 2 or more texts; received"):
        make_model(endpoints=("stage3",))


@pytest.mark.slow
def test_it_trains_by_the_command_line(tmp_path):
    method = "multilevel(endpoints=('stage1', 'stage2'), reduced=8, hidden=16)"
    done = train(tmp_path / "run", f"--method={method}", "--loss=ranked_list_simpler", "--epochs=1")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "run" / "model.keras").exists()
