"""Every head makes a layer, and models of every method take it and come back from files."""

import dataclasses

import keras
import numpy as np
import pytest

import tfdml
from tests.methods.test_every_method import IMAGES, make
from tfdml.heads import Head, Linear
from tfdml.registry import Count, create, names, register


class Hidden(Head):
    """A head of a user's own, of layers that Keras has; its output is wider than its input."""

    units: Count = 7

    def make_layer(self, **kwargs):
        layers = [keras.layers.Flatten(), keras.layers.Dense(self.units, "relu"), keras.layers.Dropout(0.5)]
        return keras.Sequential(layers, **kwargs)


@pytest.fixture
def hidden(monkeypatch):
    monkeypatch.setattr(tfdml.registry.parts, "_registered", {**tfdml.registry.parts._registered, "head": {}})
    return register("head", "hidden")(Hidden)(units=5)


@pytest.mark.parametrize("name", names("head"))
def test_a_head_is_what_its_config_says_and_its_layer_gives_vectors(name):
    head = create("head", name)
    again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(head))
    assert again == head and type(again) is type(head)
    for shape in ((2, 4, 4, 6), (2, 5, 6), (2, 6)):
        layer = head.make_layer(name="features")
        assert layer.name == "features"
        pooled = layer(np.ones(shape, np.float32), training=True)
        assert tuple(pooled.shape) == tuple(layer.compute_output_shape(shape)) and len(pooled.shape) == 2


@pytest.mark.parametrize("method", names("method"))
@pytest.mark.few_by_day(2)
def test_every_method_takes_any_head(method, hidden, tmp_path):
    model = make(method, head=hidden)
    trained = np.asarray(model(IMAGES, training=True))
    expected = np.asarray(model(IMAGES))
    assert np.abs(trained - expected).max() > 1e-3
    kernels = [
        weight for weight in model.trainable_weights if "dense" in weight.path and weight.path.endswith("kernel")
    ]
    wide = [weight for weight in kernels if weight.shape[1] == 5]
    assert len(wide) == {"multi_head": 2, "multilevel": 2}.get(method, 1)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded(IMAGES), expected)
    assert loaded.get_config() == model.get_config()


def test_what_a_head_does_not_have_is_told():
    with pytest.raises(ValueError, match="'none', 'batch', 'layer'. Received: .*'group'"):
        Linear(norm="group")
    with pytest.raises(ValueError, match="expects head to be a head of tfdml.heads. Received: head='linear'"):
        make("single", head="linear")
    with pytest.raises(dataclasses.FrozenInstanceError):
        Linear().norm = "batch"
    with pytest.raises(NotImplementedError, match="Head must implement the method make_layer"):
        Head().make_layer()
