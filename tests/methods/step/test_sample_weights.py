"""Weights of images in `fit`, which Keras also makes of weights of classes."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfdml
from tests.methods.models import small_model

WEIGHTS = np.linspace(0, 2, 16).astype("float32")


def copies(batch, loss="n_pair"):
    """Two models with the same weights."""
    models = [small_model() for _ in range(2)]
    for model in models:
        model.compile(keras.optimizers.SGD(0.1), loss=loss, run_eagerly=True)
        model.evaluate(*batch, batch_size=16, verbose=0)
    models[1].set_weights(models[0].get_weights())
    return models


def test_the_step_is_that_of_the_weighted_mean(batch):
    images, labels = batch
    model, other = copies(batch)
    with tf.GradientTape() as tape:
        values = other.loss.call(labels, other(images, training=True))
        loss = tf.reduce_mean(values * WEIGHTS)
    variables = other.trainable_variables
    gradients = tape.gradient(loss, [variable.value for variable in variables])
    found = model.train_on_batch(images, labels, sample_weight=WEIGHTS, return_dict=True)
    assert found["loss"] == pytest.approx(float(loss), rel=1e-5)
    for trained, start, gradient in zip(model.trainable_variables, variables, gradients, strict=True):
        np.testing.assert_allclose(trained, start - 0.1 * gradient, rtol=1e-4, atol=1e-6)


def test_weights_of_classes_are_those_of_their_images(batch):
    images, labels = batch
    first, second = copies(batch)
    of_class = {label: 0.5 + label for label in np.unique(labels).tolist()}
    of_images = np.array([of_class[label] for label in labels.tolist()], np.float32)
    quiet = {"batch_size": 16, "shuffle": False, "verbose": 0}
    first.fit(images, labels, class_weight=of_class, **quiet)
    second.fit(images, labels, sample_weight=of_images, **quiet)
    for one, other in zip(first.get_weights(), second.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.nightly
def test_weights_of_1_change_nothing_in_any_method(batch):
    images, labels = batch
    turns = {"label": labels, "learner": np.zeros(16, np.int64)}
    backbone = tfdml.backbones.Small(width=4, stages=2)
    divided = tfdml.DivideAndConquer(backbone, embedding_size=16, learners=2)
    ensemble = tfdml.MultiHead(tfdml.backbones.Small(width=4, stages=2), embedding_size=16, learners=2)
    for model, target in ((divided, turns), (ensemble, labels)):
        model.compile("sgd", loss="triplet", run_eagerly=True)
        losses = [
            model.test_on_batch(images, target, sample_weight=weight, return_dict=True)["loss"]
            for weight in (None, np.ones(16, np.float32), np.full(16, 3, np.float32))
        ]
        assert losses[0] == losses[1] and losses[2] == pytest.approx(3 * losses[0], rel=1e-5)
