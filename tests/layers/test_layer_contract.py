"""What holds for every public layer: shapes, files, and the precision of layers that a loss needs."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfdml import layers
from tfdml.layers import LossLayer

WALK = {"restart": 0.25, "affinity": "shifted", "neighbors": 4}
# Shapes of what each takes, without the rows.
CASES = [
    (layers.AttentionMasks(3, 5, initial=0.25), (4, 4, 6)),
    (layers.CeilAveragePooling(5, 3), (7, 8, 2)),
    (layers.CeilMaxPooling(3, 2), (8, 9, 3)),
    (layers.DropPath(0.25), (3, 2)),
    (layers.LocalResponseNorm(size=3, alpha=0.1, beta=0.5, bias=2.0), (3, 4, 11)),
    (layers.Pooling("gem", power=2.5), (4, 5, 6)),
    (layers.PooledFeatures("gem", norm="batch", dropout=0.25), (4, 4, 6)),
    (layers.TokenFeatures("both", prefix=2), (5, 6)),
    (layers.EmbeddingHead(12, layers.PooledFeatures("gem", norm="batch", dropout=0.25)), (4, 4, 6)),
    (layers.EmbeddingHead(12, layers.PooledFeatures("max", norm="layer"), normalize=False), (4, 4, 6)),
    (layers.SplitEmbedding(12, 3, layers.PooledFeatures("avg+max", norm="layer")), (4, 4, 6)),
    (layers.Projector((6, 4)), (5,)),
    (layers.Predictor(), (5,)),
    (layers.BesideReference("teacher", dims=3, projection=True), (5,)),
    (layers.BesideReference("initial"), (5,)),
    (layers.ClassMargins(7, beta=0.3), (5,)),
    (layers.Proxies(7, initializer=keras.initializers.RandomUniform(-2.0, 2.0, seed=4)), (5,)),
    (layers.Proxies(7, per_class=3, regularizer=layers.CenterMerging(3, 0.7)), (5,)),
    (layers.ProxiesWithLengths(7), (5,)),
    (layers.SampledProxies(7, 7, scale=2.0, per_class=2, seed=1), (5,)),
    (layers.ShardedProxies(7, 2.0, per_class=3), (5,)),
    (layers.ManifoldProxies(7, view="contextual", **WALK), (5,)),
]
# The inputs of one are several, see `test_embedding_heads`; the other draws new numbers, see `test_recall_at_k`.
APART = {layers.MultilevelEmbedding, layers.MixingShares}
of_every_layer = pytest.mark.parametrize("made, shape", CASES, ids=lambda case: type(case).__name__)
of_loss_layers = pytest.mark.parametrize(
    "made, shape",
    [case for case in CASES if isinstance(case[0], LossLayer)],
    ids=lambda case: type(case).__name__,
)
LABELS = np.arange(6)


@pytest.fixture
def rows(shape):
    return np.random.default_rng(0).normal(size=(6, *shape)).astype("float32")


def computed(layer, rows):
    return layer(rows, LABELS) if isinstance(layer, LossLayer) else layer(rows)


def test_every_layer_is_here():
    public = {getattr(layers, name) for name in layers.__all__}
    public = {each for each in public if isinstance(each, type) and issubclass(each, keras.layers.Layer)}
    assert public == {type(made) for made, _ in CASES} | APART | {LossLayer}


@pytest.mark.parametrize("made", [made for made, _ in CASES], ids=lambda made: type(made).__name__)
def test_the_configuration_survives_json(made):
    written = json.loads(json.dumps(keras.saving.serialize_keras_object(made)))
    assert written["registered_name"] == f"tfdml>{type(made).__name__}"
    read = keras.saving.deserialize_keras_object(written)
    assert type(read) is type(made) and json.dumps(read.get_config()) == json.dumps(made.get_config())


@of_every_layer
def test_saved_and_loaded_with_a_model_it_computes_the_same(made, shape, rows, tmp_path):
    layer = type(made).from_config(made.get_config())
    inputs = keras.Input(shape)
    taken = [inputs, keras.Input((), dtype="int32")] if isinstance(layer, LossLayer) else [inputs]
    model = keras.Model(taken, layer(*taken))
    given = [rows, LABELS][: len(taken)]
    # One pass in training, so that moving statistics are not their first values.
    model(given, training=True)
    expected = model(given)
    assert expected.shape == layer.compute_output_shape(rows.shape)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded(given), expected)


@of_loss_layers
@pytest.mark.parametrize("half", ["bfloat16", "float16"])
def test_half_precision_is_computed_in_float32_and_float64_is_left(made, rows, half):
    layer = type(made).from_config(made.get_config())
    rounded = tf.cast(rows, half)
    found = computed(layer, rounded)
    assert found.dtype == "float32" and computed(layer, rows.astype("float64")).dtype == "float64"
    np.testing.assert_array_equal(found, computed(layer, tf.cast(rounded, "float32")))


@of_loss_layers
@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16", "bfloat16"])
@pytest.mark.few_by_day(11)
def test_a_policy_of_half_precision_keeps_float32(made, rows, policy):
    plain = type(made).from_config(made.get_config())
    expected, config = computed(plain, rows), made.get_config()
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(policy)
    try:
        under_policy = type(made).from_config({name: value for name, value in config.items() if name != "dtype"})
    finally:
        keras.config.set_dtype_policy(before)
    for layer in (type(made).from_config({**config, "dtype": policy}), under_policy):
        layer.build(rows.shape)
        layer.set_weights(plain.get_weights())
        found = computed(layer, rows)
        floats = [weight for weight in layer.weights if keras.backend.is_float_dtype(weight.dtype)]
        assert {found.dtype.name, *(weight.dtype for weight in floats)} == {"float32"}
        np.testing.assert_array_equal(found, expected)
