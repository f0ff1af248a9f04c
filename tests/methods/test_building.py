"""Models are built from a shape as they are by a call: trained, saved and loaded."""

import keras
import numpy as np
import pytest

import tfdml
from tests.methods.models import small_model


@pytest.fixture
def built():
    model = small_model()
    model.build((None, 12, 12, 3))
    return model


def test_all_variables_are_made(built, batch):
    called = small_model()
    called(batch[0])
    assert [(each.path, each.shape) for each in built.variables] == [
        (each.path.replace(called.name, built.name), each.shape) for each in called.variables
    ]


def test_weights_from_a_file_are_all_loaded(built, batch, tmp_path):
    built.save_weights(tmp_path / "a.weights.h5")
    other = small_model()
    other.build((None, 12, 12, 3))
    other.load_weights(tmp_path / "a.weights.h5")
    np.testing.assert_array_equal(other(batch[0]), built(batch[0]))


def test_it_trains_and_its_file_loads(built, batch, tmp_path):
    built.compile("sgd", loss="proxy_nca(classes=4)", run_eagerly=True)
    assert np.isfinite(built.fit(*batch, batch_size=16, verbose=0).history["loss"][0])
    built.save(tmp_path / "a.keras")
    np.testing.assert_array_equal(keras.models.load_model(tmp_path / "a.keras")(batch[0]), built(batch[0]))


def test_it_is_exported_without_another_call(built, tmp_path):
    built.export(tmp_path / "exported", verbose=False)
    assert (tmp_path / "exported" / "saved_model.pb").exists()


def test_a_shape_that_cannot_be_leaves_the_model_unbuilt():
    model = small_model()
    with pytest.raises(ValueError):
        model.build((None, 12, 12, 4))
    assert not model.built
    model.build((None, 12, 12, 3))
    with pytest.raises(ValueError):
        model.build((None, 12, 12, 4))
    assert model.built


class OwnBuild(tfdml.EmbeddingModel):
    """Makes its layers in a `build` of its own, as Keras' models may."""

    def __init__(self, **arguments):
        super().__init__(**arguments)
        self.dense = keras.layers.Dense(8)

    def build(self, input_shape):
        self.dense.build((None, 3))

    def learner_embeddings(self, images, training=False):
        return self.dense(keras.ops.mean(images, axis=(1, 2)))[:, None]


@pytest.mark.parametrize("builds", [False, True])
def test_a_subclass_may_have_its_own(batch, tmp_path, builds):
    model = OwnBuild()
    if builds:
        model.build((None, 12, 12, 3))
    model.compile("sgd", loss="proxy_nca(classes=4)", run_eagerly=builds)
    assert np.isfinite(model.fit(*batch, batch_size=16, verbose=0).history["loss"][0])
    model.save(tmp_path / "a.keras")
    loaded = keras.models.load_model(tmp_path / "a.keras", custom_objects={"OwnBuild": OwnBuild})
    loaded.export(tmp_path / "exported", verbose=False)
    np.testing.assert_array_equal(loaded(batch[0]), model(batch[0]))
    loaded.fit(*batch, batch_size=16, verbose=0)


def test_a_functional_model_around_it_stays_whole(batch, tmp_path):
    model = small_model()
    images = keras.Input((12, 12, 3))
    around = keras.Model(images, model(images))
    model.build((None, 12, 12, 3))
    around.save(tmp_path / "a.keras")
    np.testing.assert_array_equal(keras.models.load_model(tmp_path / "a.keras")(batch[0]), around(batch[0]))


def test_the_shape_of_embeddings():
    model = small_model()
    assert model.compute_output_shape((None, 12, 12, 3)) == (None, 16) and model.built
    assert model.compute_output_shape((5, 12, 12, 3)) == (5, 16)


def test_learner_embeddings_keep_their_shape_in_a_functional_model():
    model = tfdml.MultiHead(tfdml.backbones.Small(width=4, stages=2), embedding_size=8, learners=2)
    assert model(keras.Input((12, 12, 3)), merged=False).shape == (None, 2, 4)
