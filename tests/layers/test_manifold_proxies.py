import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfdml.functional.manifold import manifold_similarities
from tfdml.layers import ManifoldProxies


@pytest.fixture
def embeddings():
    return np.random.default_rng(0).normal(size=(6, 4)).astype("float32")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "arguments",
    [{}, {"view": "contextual"}, {"restart": 0.3}, {"affinity": "shifted"}, {"neighbors": 2}],
    ids=["defaults", "contextual", "restart", "shifted", "neighbors"],
)
def test_similarities_are_those_along_the_manifold(embeddings, dtype, arguments):
    layer = ManifoldProxies(5, **arguments)
    similarities = layer(embeddings.astype(dtype), np.arange(6))
    assert similarities.dtype == dtype and similarities.shape == (6, 5)
    expected = manifold_similarities(
        tf.constant(embeddings, "float64"), tf.cast(layer.proxies.value, "float64"), **arguments
    )
    np.testing.assert_allclose(similarities, expected, rtol=1e-4 if dtype == "float32" else 1e-12)
    others = [{"view": "contextual"}, {"restart": 0.4}, {"affinity": "shifted"}, {"neighbors": 2}]
    for other in others:
        if not other.items() <= arguments.items():
            own = ManifoldProxies(5, **{**arguments, **other})
            own.build((None, 4))
            own.proxies.assign(layer.proxies)
            assert not np.allclose(own(embeddings), similarities, rtol=1e-2)


def test_a_row_depends_on_the_whole_batch(embeddings):
    layer = ManifoldProxies(5)
    assert not np.allclose(layer(embeddings)[:3], layer(embeddings[:3]), rtol=1e-2)


def test_half_precision_is_computed_in_float32(embeddings):
    layer = ManifoldProxies(5, dtype="mixed_bfloat16")
    rounded = tf.cast(embeddings, "bfloat16")
    assert layer(embeddings).dtype == layer.proxies.dtype == "float32"
    np.testing.assert_array_equal(layer(rounded), layer(tf.cast(rounded, "float32")))


def test_proxies_can_be_given_and_held(embeddings):
    layer = ManifoldProxies(5)
    layer.build((None, 4))
    layer.trainable = False
    layer.proxies.assign(np.ones((5, 4)))
    assert layer.trainable_weights == [] and layer.non_trainable_weights == [layer.proxies]
    similarities = layer(embeddings)
    np.testing.assert_allclose(similarities, np.repeat(similarities[:, :1], 5, axis=1), rtol=1e-5)


def test_config_survives_json():
    walk = {"restart": 0.25, "affinity": "shifted", "neighbors": 4}
    own = ManifoldProxies(7, view="contextual", **walk, initializer="ones", name="own")
    written = json.loads(json.dumps(keras.saving.serialize_keras_object(own)))
    read = keras.saving.deserialize_keras_object(written)
    assert type(read) is ManifoldProxies and read.get_config() == own.get_config()
    assert (read.classes, read.view) == (7, "contextual")
    assert {name: getattr(read, name) for name in walk} == walk


def test_saved_and_loaded_with_a_model(embeddings, tmp_path):
    inputs = keras.Input((4,))
    model = keras.Model(inputs, ManifoldProxies(5, view="contextual")(inputs))
    assert model.output_shape == (None, 5)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded(embeddings), model(embeddings))


def test_bad_arguments_are_told():
    for arguments, message in (
        ({"view": "both"}, "view to be one of 'intrinsic', 'contextual'; received 'both'"),
        ({"restart": 1.0}, "restart to be a number above 0 and below 1; received 1.0"),
        ({"affinity": "dot"}, "affinity to be one of 'clipped', 'shifted'; received 'dot'"),
        ({"per_class": 2}, "one proxy per class, received per_class=2"),
    ):
        with pytest.raises(ValueError, match=message):
            ManifoldProxies(5, **arguments)
    with pytest.raises(ValueError, match="classes to be an integer of 1 or more"):
        ManifoldProxies(0)
