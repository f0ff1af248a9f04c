"""Losses with variables in the models of the methods."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfdml
from tfdml.losses import Contrastive, ProxyNCA
from tfdml.methods.step.loss_layers import LossLayers
from tfdml.methods.step.parts import Measures, measure


def model_with(loss, built=True):
    keras.utils.set_random_seed(0)
    model = tfdml.Single(tfdml.backbones.Small(width=8, stages=2), embedding_size=16)
    if built:
        model(np.zeros((1, 12, 12, 3), np.float32))
    model.compile(keras.optimizers.Adam(0.01), loss=loss)
    return model


def proxies_of(model):
    return [weight for weight in model.trainable_variables if "proxies" in weight.path]


def test_the_step_is_the_gradient_of_the_loss(batch):
    model = model_with(ProxyNCA(classes=4))
    model.compile(keras.optimizers.SGD(0.1), loss=ProxyNCA(classes=4))
    (proxies,) = proxies_of(model)
    before = tf.Variable(proxies.value)
    embeddings = model(batch[0], training=True)
    with tf.GradientTape() as tape:
        units = tf.math.l2_normalize(before, axis=-1)
        loss = tf.reduce_mean(ProxyNCA().call(batch[1], tf.matmul(embeddings, units, transpose_b=True)))
    expected = before - 0.1 * tape.gradient(loss, before)
    logs = model.train_on_batch(*batch, return_dict=True)
    assert logs["loss"] == pytest.approx(float(loss), rel=1e-4)
    np.testing.assert_allclose(proxies.value, expected, atol=1e-6)


def test_more_classes_than_are_sampled_are_told():
    loss = tfdml.registry.create("loss", "norm_softmax(classes=9, sampled_classes=3) + proxy_nca(classes=9)")
    layers = LossLayers()
    layers.make(loss, [2])
    taken = layers.inputs_of(0, tf.constant([4, 8, 4, 1]), tf.eye(4, 2))
    assert taken.shape == (4, 1, 4 + 9) and np.isfinite(loss.call(tf.constant([4, 8, 4, 1]), taken)).all()
    with pytest.raises(tf.errors.InvalidArgumentError, match="samples 3 classes per step, but the batch has more"):
        layers.inputs_of(0, tf.constant([4, 8, 5, 1]), tf.eye(4, 2))


def test_compiling_again_leaves_nothing_of_the_loss_before(batch):
    model = model_with(ProxyNCA(classes=4))
    model.compile("adam", loss=ProxyNCA(classes=9))
    assert [proxies.shape for proxies in proxies_of(model)] == [(9, 16)]
    model.compile("adam", loss=Contrastive())
    assert not proxies_of(model)


@pytest.mark.nightly
def test_saved_with_the_model_and_left_out_of_what_serves(batch, tmp_path):
    model = model_with(ProxyNCA(classes=4))
    model.fit(*batch, batch_size=16, epochs=2, verbose=0)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(proxies_of(loaded)[0].value, proxies_of(model)[0].value)
    logs = [each.train_on_batch(*batch, return_dict=True)["loss"] for each in (model, loaded)]
    assert logs[0] == pytest.approx(logs[1], rel=1e-5)
    for mine, its in zip(model.trainable_variables, loaded.trainable_variables, strict=True):
        np.testing.assert_allclose(mine.value, its.value, atol=1e-6, err_msg=mine.path)
    served = keras.models.load_model(tmp_path / "model.keras", compile=False)
    assert not proxies_of(served)


@pytest.mark.nightly
def test_a_label_that_is_no_class_is_named(batch):
    model = model_with(ProxyNCA(classes=3))
    with pytest.raises(ValueError, match="labels must be from 0 to 2. Received: 3 at position 12"):
        model.fit(*batch, batch_size=16, verbose=0)
    # In one sentence, however it is used.
    sentence = r"The loss has 3 classes. Expected labels from 0 to 2. Received: a batch with another label\."
    data = tf.data.Dataset.from_tensors(batch)
    uses = [lambda: model.fit(data, verbose=0), lambda: model.evaluate(data, verbose=0)]
    for use in (*uses, lambda: model.train_on_batch(*batch)):
        with pytest.raises(ValueError, match=f"^{sentence} Set the number of classes of the loss, [^\\n]*$") as told:
            use()
        assert told.value.__suppress_context__


def test_without_a_number_of_classes_it_is_refused():
    with pytest.raises(ValueError, match="ProxyNCA\\(classes=...\\)"):
        model_with(ProxyNCA())


def test_compiling_again_keeps_what_the_loss_has_learned(batch):
    """As in Keras, where compile changes no weights: freeze, fit, unfreeze, compile, fit."""
    model = model_with(ProxyNCA(classes=4))
    model.fit(*batch, batch_size=16, verbose=0)
    (learned,) = map(np.array, proxies_of(model))
    model.compile(keras.optimizers.Adam(1e-5), loss=tfdml.losses.ProxyAnchor(classes=4))
    (kept,) = proxies_of(model)
    np.testing.assert_array_equal(kept, learned)
    model.compile("adam", loss=ProxyNCA(classes=5))
    assert proxies_of(model)[0].shape == (5, 16)


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


LEARNED = tf.constant([0.0, 0.0, 1.0, 1.0])


def test_a_batch_without_positive_pairs_has_no_part_in_their_mean_distance():
    embeddings = tf.constant(np.eye(4), tf.float32)
    measures = Measures()
    for labels in ([0, 0, 1, 2], [0, 1, 2, 3]):
        measured = measure(tf.constant(labels), embeddings, LEARNED)
        found = measures.update(measured | {"loss": tf.constant(1.0)}, rows=4, skips_infinite=False)
    assert float(found["positive_distance"]) == pytest.approx(2**0.5)
    assert float(found["negative_distance"]) == pytest.approx(2**0.5)
    assert float(found["active_anchors"]) == 0.5


def test_means_are_over_rows_and_have_what_was_measured():
    measures = Measures()
    measures.update({"loss": tf.constant(1.0)}, rows=31, skips_infinite=False)
    found = measures.update({"loss": tf.constant(0.0)}, rows=tf.constant(1), skips_infinite=False)
    assert found.keys() == {"loss"} and float(found["loss"]) == pytest.approx(31 / 32)
