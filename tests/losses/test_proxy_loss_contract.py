"""What holds for every registered loss on similarities to proxies; see the fixture `proxy_loss_spec` in conftest."""

import numpy as np
import pytest
import tensorflow as tf

from tfdml import registry


@pytest.fixture
def loss(proxy_loss_spec):
    return registry.create("loss", proxy_loss_spec)


@pytest.fixture
def similarities(loss, make_batch, make_feed):
    """Labels `[12]` and similarities to the proxies of 7 classes."""
    labels, embeddings = make_batch(12, 7)
    return labels, make_feed(loss)(labels, embeddings).numpy()


@pytest.mark.few_by_day(5)
def test_names_of_classes_change_nothing(loss, similarities):
    labels, values = similarities
    order = np.random.default_rng(0).permutation(7)
    renamed = np.argsort(order)[labels]
    for use in (loss, loss.call):
        expected = use(labels, values)
        np.testing.assert_allclose(use(renamed, values[:, order]), expected, rtol=1e-5)
        for other in (labels[:, None], labels.astype("float32"), labels.astype("uint8")):
            np.testing.assert_array_equal(use(other, values), expected)


@pytest.mark.few_by_day(5)
def test_a_label_that_is_no_class_gives_nan_or_is_named(loss, similarities):
    labels, values = similarities
    compiled = tf.function(loss)
    assert np.all(np.isfinite(loss.call(labels, values))) and np.isfinite(compiled(tf.constant(labels), values))
    for label in (-1, 7, 2**24, -(2**40), 2**40):
        labels[3] = label
        assert np.isnan(loss.call(labels, values)[3]), label
        assert np.isnan(compiled(tf.constant(labels), values)), label
        with pytest.raises(ValueError, match=f"labels must be from 0 to 6. Received: {label} at position 3"):
            loss(labels, values)


def test_bad_shapes_are_told(loss, similarities):
    labels, values = similarities
    for use in (loss, loss.call):
        with pytest.raises(ValueError, match=r"\[batch, classes.*Received: shape=\(12,\)"):
            use(labels, values.reshape(12, -1)[:, 0])
        with pytest.raises(ValueError, match="11 labels for 12"):
            use(labels[1:], values)
        with pytest.raises(ValueError, match="argmax"):
            use(np.eye(12, dtype=int), values)


def test_proxies_get_gradients(loss, make_batch):
    labels, embeddings = make_batch(12, 7)
    layer = loss.make_layer()
    with tf.GradientTape() as tape:
        values = loss.call(labels, layer(embeddings, labels))
    for weight, gradient in zip(layer.weights, tape.gradient(values, [w.value for w in layer.weights]), strict=True):
        assert np.abs(gradient).max() > 1e-4, weight.path


def test_without_a_number_of_classes_the_layer_is_refused(loss):
    config = {**loss.get_config(), "classes": None}
    with pytest.raises(ValueError, match="needs the number of training classes"):
        type(loss).from_config(config).make_layer()
