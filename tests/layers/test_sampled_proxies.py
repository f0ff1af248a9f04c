"""A sample of the classes stands for all of them."""

import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfdml
from tfdml import losses
from tfdml.layers import Proxies, SampledProxies

CLASSES, LABELS = 5, np.array([1, 3, 1])
LOSSES = [
    losses.NormSoftmax(temperature=0.5, classes=CLASSES, sampled_classes=4),
    losses.ArcFace(scale=4.0, classes=CLASSES, sampled_classes=4),
    losses.CosFace(scale=4.0, classes=CLASSES, sampled_classes=4),
    losses.ProxyNCA(classes=CLASSES, sampled_classes=4),
    losses.ProxyNCA(scale=2.0, exclude_positive=False, classes=CLASSES, sampled_classes=4),
    losses.SubCenterArcFace(scale=4.0, per_class=2, classes=CLASSES, sampled_classes=4),
]
each_loss = pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)


def built(layer, seed=3):
    layer.build((None, 3))
    layer.proxies.assign(np.random.default_rng(seed).normal(size=layer.proxies.shape))
    return layer


def measured(loss, layer, sampled, of=lambda value: value):
    """A function of the loss `[B]`, and gradients of its sum by embeddings and proxies."""
    embeddings = tf.Variable(np.random.default_rng(5).normal(size=(3, 3)))
    with tf.GradientTape() as tape:
        taken = layer(embeddings, LABELS)
        taking = loss if sampled else type(loss)(**{**loss.get_config(), "sampled_classes": None})
        values = of(taking.call(LABELS, taken))
    gradients = tape.gradient(values, [embeddings, layer.proxies.value])
    return [np.array(tf.convert_to_tensor(each)) for each in (values, *gradients)]


def full(loss, of=lambda value: value):
    return measured(loss, built(Proxies(CLASSES, per_class=loss.per_class, dtype="float64")), False, of)


def with_sample(loss, sampled, chosen=None, of=lambda value: value):
    """With a given sample of classes, or one that is drawn."""
    made = loss.make_layer()
    about = {"scale": made.scale, "per_class": loss.per_class, "dtype": "float64"}
    layer = built(SampledProxies(CLASSES, sampled, **about))
    if chosen is not None:
        layer.draw = lambda labels: (tf.constant(chosen), tf.constant((sampled - 2) / (CLASSES - 2), tf.float64))
    return measured(loss, layer, True, of)


def mean_over_samples(loss, of):
    """Over all samples of two of the classes that are not in the batch."""
    others = [number for number in range(CLASSES) if number not in LABELS]
    samples = [sorted([1, 3, *drawn]) for drawn in itertools.combinations(others, 2)]
    each = [with_sample(loss, 4, chosen, of) for chosen in samples]
    return [np.mean(values, axis=0) for values in zip(*each, strict=True)]


@pytest.mark.slow
@each_loss
def test_a_sample_of_all_classes_changes_nothing(loss):
    for one, other in zip(with_sample(loss, CLASSES), full(loss), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


@each_loss
def test_the_expected_sum_of_exponentials_and_its_gradient_are_those_of_all_classes(loss):
    for one, other in zip(mean_over_samples(loss, tf.exp), full(loss, tf.exp), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-9)


def test_without_correction_similarities_are_cosines():
    loss = losses.NormSoftmax(classes=CLASSES, sampled_classes=4, sampling="partial_fc")
    layer, everything = built(loss.make_layer()), built(Proxies(CLASSES))
    layer.draw = lambda labels: (tf.constant([0, 1, 3, 4]), tf.constant(0.4))
    embeddings = np.random.default_rng(5).normal(size=(3, 3)).astype("float32")
    cosines = everything(embeddings).numpy()
    expected = np.concatenate([cosines[np.arange(3), LABELS][:, None], cosines[:, [0, 1, 3, 4]]], axis=1)
    expected[[0, 1, 2], [2, 3, 2]] = -np.inf
    np.testing.assert_allclose(layer(embeddings, LABELS), expected, rtol=1e-5)


def test_draws_have_the_batch_and_all_others_equally_often():
    layer = SampledProxies(7, 4, seed=1)
    draw = tf.function(lambda: layer.draw(tf.constant(LABELS, tf.int32)))
    counts, drawn = np.zeros(7), set()
    for _ in range(200):
        chosen, count = draw()
        counts[chosen] += 1
        drawn.add(tuple(chosen.numpy()))
        assert list(chosen) == sorted(set(chosen.numpy())) and len(chosen) == 4 and float(count) == np.float32(2 / 5)
    assert counts[[1, 3]].tolist() == [200, 200] and len(drawn) == 10
    # 80 each, with a standard deviation of 7.
    np.testing.assert_allclose(counts[[0, 2, 4, 5, 6]], 80, atol=30)


def test_draws_are_a_function_of_the_seed_and_their_number():
    labels = tf.constant([0])
    one, same, other = (SampledProxies(1000, 5, seed=seed) for seed in (1, 1, 2))
    draws = [tuple(one.draw(labels)[0].numpy()) for _ in range(3)]
    assert len(set(draws)) == 3 and draws == [tuple(same.draw(labels)[0].numpy()) for _ in range(3)]
    assert tuple(other.draw(labels)[0].numpy()) != draws[0]
    (counted,) = same.variables
    counted.assign([1, 1])
    assert tuple(same.draw(labels)[0].numpy()) == draws[1]


def test_gradients_move_the_drawn_rows_only():
    layer = built(losses.SubCenterArcFace(classes=CLASSES, sampled_classes=4).make_layer())
    layer.draw = lambda labels: (tf.constant([0, 1, 3, 4]), tf.constant(0.4))
    with tf.GradientTape() as tape:
        total = tf.reduce_sum(tf.where(tf.math.is_finite(taken := layer(np.eye(3), LABELS)), taken, 0.0))
    gradient = tape.gradient(total, layer.proxies.value)
    assert isinstance(gradient, tf.IndexedSlices) and len(gradient.indices) == 12
    moved = np.abs(tf.convert_to_tensor(gradient)).reshape(CLASSES, -1).sum(axis=1) > 0
    assert moved.tolist() == [True, True, False, True, True]


def test_in_plain_keras():
    loss = losses.CosFace(classes=CLASSES, sampled_classes=4)
    inputs, labels = keras.Input((3,)), keras.Input((), dtype="int32")
    model = keras.Model([inputs, labels], loss.make_layer()(inputs, labels))
    copy = keras.Model.from_config(model.get_config())
    taken = copy([np.eye(3), LABELS])
    assert taken.shape == (3, 5) and np.isfinite(float(loss(LABELS, taken)))
    assert np.isnan(copy([np.eye(3), np.array([1, CLASSES, 2])])[1, 0])
    with pytest.raises(ValueError, match=r"Expected shape \[batch, classes\] = \[batch, 5\]. Received: shape=\(3, 6\)"):
        loss(LABELS, np.zeros((3, 6)))


def test_classes_of_a_batch_that_are_not_drawn_give_nan():
    found = SampledProxies(CLASSES, sampled=2, seed=0)(np.eye(4, 3), np.arange(4)).numpy()[:, 0]
    assert np.isnan(found).sum() == 2 and np.isfinite(found).sum() == 2


def test_more_than_the_classes_are_all_classes():
    layer = losses.NormSoftmax(classes=4, sampled_classes=4).make_layer()
    assert type(layer) is Proxies


@pytest.mark.parametrize(
    "use, message",
    [
        (lambda: SampledProxies(3, 4), "sampled must be at most the number of classes, 3. Received: sampled=4"),
        (lambda: SampledProxies(9, 4)(np.eye(3)), "SampledProxies also needs the labels"),
        (lambda: losses.CosFace(sampled_classes=3).make_layer(), "CosFace needs the number of training classes"),
    ],
)
def test_what_cannot_be_is_told(use, message):
    with pytest.raises(ValueError, match=message):
        use()


def test_a_step_draws_once():
    """Statistics of a loss that has none do not compute its similarities again."""
    model = tfdml.Single(keras.Sequential([keras.layers.Conv2D(2, 3)]), embedding_size=4)
    model.compile("sgd", loss=losses.NormSoftmax(classes=8, sampled_classes=6))
    images = np.random.default_rng(0).normal(size=(8, 8, 8, 3)).astype(np.float32)
    model(images)
    (layer,) = model.loss_layers.learners
    before = int(layer.draws.state[1])
    model.fit(images, np.arange(8) // 2, batch_size=4, epochs=1, verbose=0)
    assert int(layer.draws.state[1]) == before + 2
