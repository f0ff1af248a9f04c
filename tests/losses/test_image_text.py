"""The contrastive loss of images and texts equals a loop, and its layer learns the temperature."""

import math

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from tests.losses.loops import assert_is_gradient, cosine
from tfdml import losses, registry

LABELS = np.array([0, 1, 2, 1, 3, 0])


def rows_of(seed=0, dim=4, dtype="float64"):
    return np.random.default_rng(seed).normal(size=(len(LABELS), 2 * dim)).astype(dtype)


def fed(rows, scale, bias):
    """The output of the layer for embeddings of images and texts."""
    return np.concatenate([rows, np.tile([scale, bias], (len(rows), 1))], axis=1)[:, None]


def softmax(labels, rows, scale):
    images, texts = np.split(rows, 2, axis=1)
    values = []
    for i, label in enumerate(labels):
        positives = [p for p, other in enumerate(labels) if other == label]
        of_image = math.log(sum(math.exp(scale * cosine(images[i], text)) for text in texts))
        of_text = math.log(sum(math.exp(scale * cosine(image, texts[i])) for image in images))
        of_image -= np.mean([scale * cosine(images[i], texts[p]) for p in positives])
        of_text -= np.mean([scale * cosine(images[p], texts[i]) for p in positives])
        values.append((of_image + of_text) / 2)
    return values


def sigmoid(labels, rows, scale, bias):
    images, texts = np.split(rows, 2, axis=1)
    return [
        sum(
            math.log(1 + math.exp(-(1 if other == label else -1) * (scale * cosine(image, text) + bias)))
            for other, text in zip(labels, texts, strict=True)
        )
        for label, image in zip(labels, images, strict=True)
    ]


@pytest.mark.parametrize("labels", [LABELS, np.arange(6), np.zeros(6, int)], ids=["some equal", "different", "equal"])
@pytest.mark.parametrize("form, bias", [("softmax", 0.0), ("sigmoid", -1.5)])
def test_values_and_gradients_are_those_of_the_loop(labels, form, bias):
    rows, loss = rows_of(), losses.ImageText(form=form)
    loop = (
        (lambda rows: softmax(labels, rows, 3.0))
        if form == "softmax"
        else (lambda rows: sigmoid(labels, rows, 3.0, bias))
    )
    variable = tf.Variable(rows)
    with tf.GradientTape() as tape:
        values = loss.call(labels, ops.concatenate([variable, fed(rows, 3.0, bias)[:, 0, -2:]], axis=1)[:, None])
    np.testing.assert_allclose(values, loop(rows), rtol=1e-9)
    assert_is_gradient(tf.convert_to_tensor(tape.gradient(values, variable)).numpy(), loop, rows)


def test_lengths_of_embeddings_do_not_matter():
    rows, loss = rows_of(), losses.ImageText()
    values = loss.call(LABELS, fed(rows, 5.0, 0.0))
    np.testing.assert_allclose(loss.call(LABELS, fed(7 * rows, 5.0, 0.0)), values, rtol=1e-9)


def test_images_and_texts_can_change_places():
    rows, loss = rows_of(), losses.ImageText()
    turned = np.concatenate(np.split(rows, 2, axis=1)[::-1], axis=1)
    np.testing.assert_allclose(
        loss.call(LABELS, fed(turned, 5.0, 0.0)), loss.call(LABELS, fed(rows, 5.0, 0.0)), rtol=1e-9
    )


@pytest.mark.parametrize("form, scale, bias", [("softmax", 1 / 0.07, 0.0), ("sigmoid", 10.0, -10.0)])
def test_the_layer_starts_as_in_the_papers(form, scale, bias):
    layer = losses.ImageText(form=form).make_layer()
    np.testing.assert_allclose(layer(rows_of(dtype="float32"))[:, 0, -2:], [[scale, bias]] * len(LABELS), rtol=1e-5)
    assert len(layer.trainable_variables) == (1 if form == "softmax" else 2)
    assert not losses.ImageText(form="softmax", learn_temperature=False).make_layer()(rows_of()).dtype == "float16"
    fixed = losses.ImageText(learn_temperature=False).make_layer()
    fixed.build((None, 4))
    assert fixed.trainable_variables == []


def test_the_scale_is_limited():
    layer = losses.ImageText().make_layer()
    layer.build((None, 4))
    layer.log_scale.assign(20.0)
    assert float(layer(np.zeros((1, 4), "float32"))[0, 0, -2]) == pytest.approx(100.0)


def test_half_precision_is_computed_in_single_precision():
    rows = rows_of(dtype="float16")
    values = losses.ImageText().call(LABELS, losses.ImageText().make_layer()(rows))
    assert values.dtype == "float32"
    np.testing.assert_allclose(values, softmax(LABELS, rows.astype("float64"), 1 / 0.07), rtol=1e-4)


def test_equal_embeddings_are_at_chance():
    ones = np.ones((6, 8), "float32")
    values = losses.ImageText().call(np.arange(6), fed(ones, 10.0, 0.0).astype("float32"))
    np.testing.assert_allclose(values, np.full(6, math.log(6)), rtol=1e-5)
    zeros = losses.ImageText().call(np.arange(6), fed(0 * ones, 10.0, 0.0).astype("float32"))
    assert np.all(np.isfinite(zeros))


@pytest.mark.parametrize("shape", [(6, 8), (6, 2, 8), (6, 1, 9)])
def test_other_inputs_are_told(shape):
    with pytest.raises(ValueError, match="needs the output of its layer ScaleAndBias. Expected shape"):
        losses.ImageText()(LABELS, np.zeros(shape, "float32"))


def test_a_plain_keras_model_learns_to_match_two_views():
    """Images and texts are two fixed projections of the same 32 points; the towers learn to find one from the other."""
    random = np.random.default_rng(0)
    points = random.normal(size=(32, 6))
    images, texts = (points @ random.normal(size=(6, 10)) for _ in range(2))
    inputs = [keras.Input((10,)), keras.Input((10,))]
    towers = [keras.layers.Dense(8)(each) for each in inputs]
    loss = losses.ImageText(temperature=0.2)
    outputs = loss.make_layer()(keras.layers.Concatenate()(towers))
    model = keras.Model(inputs, outputs)
    model.compile(keras.optimizers.Adam(0.03), loss)
    model.fit([images, texts], np.arange(32), batch_size=32, epochs=60, verbose=0)
    found = keras.Model(inputs, towers).predict([images, texts], verbose=0)
    first, second = (each / np.linalg.norm(each, axis=1, keepdims=True) for each in found)
    assert np.mean(np.argmax(first @ second.T, axis=1) == np.arange(32)) > 0.9


def test_a_spec_and_a_config_give_the_same_loss():
    loss = registry.create("loss", "image_text(form='sigmoid', bias=-5.0)")
    assert type(loss).from_config(loss.get_config()).get_config() == loss.get_config()
    layer = loss.make_layer()
    assert type(layer).from_config(layer.get_config()).get_config() == layer.get_config()
    with pytest.warns(UserWarning, match="bias=-5.0 has no effect with form='softmax'"):
        losses.ImageText(bias=-5.0)
