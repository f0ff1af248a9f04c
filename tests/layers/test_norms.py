"""Local response norm, drop path, and frozen batch norm: what moves in training, and what it normalises by."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfdml
from tfdml.layers import DropPath, LocalResponseNorm, freeze_batch_norm
from tfdml.layers.norms import batch_norms
from tfdml.methods.step import replicas


def normed_by_loops(vector, size, alpha, beta, bias):
    result = np.zeros(len(vector))
    for channel, value in enumerate(vector):
        near = vector[max(0, channel - size // 2) : channel + size // 2 + 1].astype(float)
        result[channel] = value / (bias + alpha / size * sum(near**2)) ** beta
    return result


@pytest.mark.parametrize("arguments", [{}, {"size": 3, "alpha": 0.4, "beta": 0.5, "bias": 2.0}, {"size": 1}], ids=str)
def test_loops_agree(arguments):
    features = np.random.default_rng(0).normal(scale=100, size=(2, 3, 4, 11)).astype(np.float32)
    full = {"size": 5, "alpha": 1e-4, "beta": 0.75, "bias": 1.0, **arguments}
    expected = np.apply_along_axis(normed_by_loops, -1, features, **full)
    np.testing.assert_allclose(LocalResponseNorm(**arguments)(features), expected, rtol=1e-5)


def test_half_precision_keeps_its_type_and_sums_in_float32():
    features = np.full((1, 1, 1, 8), 300.0)
    layer = LocalResponseNorm(dtype="mixed_float16")
    result = layer(tf.cast(features, "float16"))
    assert result.dtype == "float16"
    np.testing.assert_allclose(result, LocalResponseNorm()(features.astype(np.float32)), rtol=1e-3)


def test_training_leaves_out_a_part_of_the_images():
    keras.utils.set_random_seed(0)
    layer, branch = DropPath(0.25), np.ones((2000, 3, 2), np.float32)
    values = np.asarray(layer(branch, training=True))
    np.testing.assert_array_equal(values, np.broadcast_to(values[:, :1, :1], values.shape))
    # Three standard deviations of a share of 2,000 draws.
    assert abs((values == 0).mean() - 0.25) < 0.03 and np.allclose(values[values != 0], 4 / 3)
    np.testing.assert_array_equal(layer(branch), branch)
    np.testing.assert_array_equal(DropPath(0.0)(branch, training=True), branch)


@pytest.fixture
def batch():
    rng = np.random.default_rng(0)
    return rng.normal(2.0, 3.0, size=(16, 12, 12, 3)).astype(np.float32), np.repeat(np.arange(4), 4)


def make_model(which, norm="none"):
    keras.utils.set_random_seed(0)
    backbone = tfdml.backbones.Small(width=8, stages=2)
    for layer in batch_norms(backbone):
        layer.moving_mean.assign(0.5 + layer.moving_mean)
        layer.moving_variance.assign(2.0 * layer.moving_variance)
    head = tfdml.heads.Linear(norm=norm)
    model = tfdml.Single(backbone, embedding_size=8, head=head, freeze_batch_norm=which)
    # Eagerly: tracing takes longer than the steps.
    model.compile(keras.optimizers.SGD(0.1), loss="triplet(mining='all')", run_eagerly=True)
    return model


def moved(model, batch):
    """Names of the weights that two steps change, batch norm's without their layer."""
    model(batch[0])
    before = {variable.path: variable.numpy() for variable in model.variables}
    model.fit(*batch, batch_size=16, epochs=2, verbose=0)
    changed = [each.path for each in model.variables if np.any(each.numpy() != before[each.path])]
    return {path.split("/")[-1] for path in changed}


AFFINE, STATISTICS = {"gamma", "beta"}, {"moving_mean", "moving_variance"}


OTHERS = {"kernel", "bias"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "which, expected",
    [("none", OTHERS | AFFINE | STATISTICS), ("statistics", OTHERS | AFFINE), ("all", OTHERS)],
)
@pytest.mark.few_by_day(2)
def test_what_training_moves(batch, which, expected):
    assert moved(make_model(which), batch) == expected


@pytest.mark.parametrize("which", ["statistics", "all"])
def test_training_normalises_by_the_moving_statistics(batch, which):
    model = make_model(which)
    np.testing.assert_allclose(model(batch[0], training=True), model(batch[0], training=False), atol=1e-6)
    plain = make_model("none")
    assert np.abs(plain(batch[0], training=True) - plain(batch[0], training=False)).max() > 0.01


@pytest.mark.parametrize("which", ["statistics", "all"])
def test_replicas_do_not_average_what_is_frozen(batch, which, monkeypatch):
    """Their mean may differ from each of them by rounding."""
    model = make_model(which, norm="batch")
    model(batch[0])
    averaged = []
    monkeypatch.setattr(replicas, "average_moving_statistics", averaged.extend)
    model.finish_statistics()
    averaged = [variable.path for variable in averaged]
    assert len([path for path in averaged if "moving" in path]) == 2 and all("embedding" in path for path in averaged)


@pytest.mark.slow
@pytest.mark.parametrize("which", ["statistics", pytest.param("all", marks=pytest.mark.nightly)])
def test_a_loaded_model_is_frozen_alike(batch, which, tmp_path):
    model = make_model(which)
    model.fit(*batch, batch_size=16, epochs=1, verbose=0)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded(batch[0]), model(batch[0]))
    assert len(loaded.optimizer.variables) == len(model.optimizer.variables)
    assert not STATISTICS & moved(loaded, batch)


def test_any_keras_model(batch):
    block = keras.Sequential([keras.layers.Conv2D(4, 3), keras.layers.BatchNormalization()])
    model = keras.Sequential([block, keras.layers.GlobalAveragePooling2D()])
    model(batch[0])
    freeze_batch_norm(model)
    (norm,) = batch_norms(model)
    before = norm.moving_mean.numpy()
    model(batch[0], training=True)
    np.testing.assert_array_equal(norm.moving_mean, before)
    assert len(model.trainable_variables) == 4


def test_what_cannot_be_is_refused(batch):
    with pytest.raises(ValueError, match="size=4"):
        LocalResponseNorm(size=4)
    with pytest.raises(ValueError, match="no batch normalization to freeze"):
        tfdml.Single(keras.Sequential([keras.layers.Flatten()]), freeze_batch_norm="all")(batch[0])


@pytest.mark.parametrize("shape, count", [((4, 5, 6, 3), 1), ((8, 3), 0)], ids=str)
def test_frozen_statistics_have_the_gradients_of_inference_mode(shape, count):
    rng, layers = np.random.default_rng(0), [keras.layers.BatchNormalization() for _ in range(2)]
    inputs, factors = (tf.constant(rng.normal(size=shape).astype(np.float32)) for _ in range(2))
    weights = [rng.uniform(0.5, 2.0, size=shape[-1]) for _ in range(4)]
    for layer in layers:
        layer.build(shape)
        layer.set_weights(weights)
    plain, frozen = layers
    freeze_batch_norm(frozen)

    def gradients(layer, training):
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            outputs = layer(inputs, training=training)
        sources = [inputs, *(each.value for each in layer.trainable_variables)]
        return [outputs, *tape.gradient(outputs, sources, output_gradients=factors)]

    for found, expected in zip(gradients(frozen, True), gradients(plain, False), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    operations = tf.function(frozen).get_concrete_function(inputs, training=True).graph.get_operations()
    # The test runs on a CPU. Vectors have no such operation.
    assert sum(each.type == "FusedBatchNormV3" for each in operations) == count
