"""Losses with variables in plain Keras: what is not their layer's output is refused in the first step."""

import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfdml.losses import (
    ArcFace,
    IntrinsicManifold,
    Margin,
    NormSoftmax,
    ProxyAnchor,
    ProxyNCA,
    ProxyNPair,
    SoftTriple,
    Triplet,
)

IMAGES = np.random.default_rng(0).normal(size=(8, 4, 4, 3)).astype(np.float32)
LABELS = np.repeat(np.arange(4), 2)
LOSSES = [
    ArcFace(classes=8),
    IntrinsicManifold(classes=8),
    Margin(learn_beta="one", nu=0.1),
    # Without nu, pulls and pushes may cancel, and then the boundary stays.
    Margin(learn_beta="per_class", nu=0.1, classes=8),
    NormSoftmax(classes=8),
    ProxyAnchor(classes=8),
    ProxyNCA(classes=8),
    SoftTriple(classes=8),
    SoftTriple(classes=8, per_class=1),
]


def embedder_of_16_dimensions():
    images = keras.Input((4, 4, 3))
    embeddings = keras.layers.UnitNormalization()(keras.layers.Dense(16)(keras.layers.Flatten()(images)))
    return images, embeddings


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_an_embedding_in_place_of_what_the_layer_gives_is_an_error_that_names_the_layer(loss):
    model = keras.Model(*embedder_of_16_dimensions())
    model.compile("sgd", loss=loss)
    layer = type(loss.make_layer()).__name__
    with pytest.raises(ValueError, match=rf"Received: shape=\(.*16\).*{layer}.*loss.make_layer\(\)\(embeddings"):
        model.fit(IMAGES, LABELS, batch_size=8, verbose=0)


def test_proxies_that_nothing_sets_are_told():
    loss = ProxyNPair(classes=4, proxies="images")
    with pytest.warns(UserWarning, match=r"nothing sets the proxies of ProxyNPair\(proxies='images'\)"):
        loss(np.arange(4), np.eye(4, dtype=np.float32))


def test_without_a_number_of_classes_there_is_a_warning():
    similarities = np.eye(4, dtype=np.float32)
    with pytest.warns(UserWarning, match=r"classes is not set, so ProxyAnchor cannot check.*\(4, 4\)"):
        ProxyAnchor()(np.arange(4), similarities)


@pytest.mark.parametrize("label", [-1, 4, 2**40])
def test_a_label_beyond_the_classes(label):
    """Named where something can be raised, NaN in a compiled function."""
    loss, similarities, labels = ProxyNCA(classes=4), np.eye(4, dtype=np.float32), np.array([0, 1, label, 3])
    with pytest.raises(ValueError, match=f"labels must be from 0 to 3. Received: {label} at position 2"):
        loss(labels, similarities)
    assert np.isnan(tf.function(loss)(tf.constant(labels), similarities))


@pytest.mark.parametrize("options", [{}, {"run_eagerly": True}], ids=["graph", "eager"])
def test_embeddings_of_as_many_dimensions_as_classes_are_told(options):
    images, embeddings = embedder_of_16_dimensions()
    loss = ProxyAnchor(classes=16)
    model = keras.Model(images, embeddings)
    model.compile("sgd", loss=loss, **options)
    with pytest.warns(UserWarning, match=r"Embeddings with 16 dimensions have the same shape.*loss.make_layer\(\)"):
        model.fit(IMAGES, LABELS, batch_size=8, verbose=0)
    right = keras.Model(images, loss.make_layer()(embeddings))
    right.compile("sgd", loss=loss, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        right.fit(IMAGES, LABELS, batch_size=8, verbose=0)
        loss(LABELS, right.predict(IMAGES, verbose=0))


def test_numbers_that_are_not_cosines_are_told():
    loss = ProxyAnchor(classes=4)
    with pytest.warns(UserWarning, match=r"Embeddings with 4 dimensions have the same shape.*loss.make_layer\(\)"):
        loss(np.arange(4), 3.0 * np.eye(4, dtype=np.float32) + 1.0)


def test_batches_of_one_image_are_told_in_a_compiled_step():
    model = keras.Model(*embedder_of_16_dimensions())
    model.compile("sgd", loss=Triplet())
    with pytest.warns(UserWarning, match="batch has a single image, so Triplet has no pair to learn from"):
        model.fit(IMAGES, LABELS, batch_size=1, verbose=0)


def test_an_error_of_a_layer_is_as_it_was_raised():
    layer = NormSoftmax(classes=8, sampled_classes=4).make_layer()
    with pytest.raises(ValueError, match=r"^SampledProxies also needs the labels\. .*\.$"):
        layer(np.ones((2, 16), np.float32))
