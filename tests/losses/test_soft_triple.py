import math

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfdml
from tests.of_batches import of_batches
from tfdml.losses import SoftTriple
from tfdml.methods.embedding_model import EmbeddingModel


def naive(labels, similarities, scale=20.0, center_temperature=0.1, margin=0.01):
    """The loss class by class and center by center."""
    values = []
    for label, row in zip(labels, np.asarray(similarities, np.float64), strict=True):
        relaxed = []
        for cosines in row:
            weights = [math.exp(cosine / center_temperature) for cosine in cosines]
            relaxed.append(sum(w / sum(weights) * cosine for w, cosine in zip(weights, cosines, strict=True)))
        own = math.exp(scale * (relaxed[label] - margin))
        others = sum(math.exp(scale * value) for number, value in enumerate(relaxed) if number != label)
        values.append(-math.log(own / (own + others)))
    return values


def merging(proxies, per_class, weight=0.2):
    """The regulariser of the paper, pair of centers by pair."""
    total, centers = 0.0, proxies.reshape(-1, per_class, proxies.shape[1]).astype(np.float64)
    for own in centers:
        own = own / np.linalg.norm(own, axis=1, keepdims=True)
        total += sum(math.sqrt(2 - 2 * own[s] @ own[t]) for t in range(per_class) for s in range(t))
    return weight * total / (len(centers) * per_class * (per_class - 1))


@pytest.mark.parametrize(
    "arguments", [{}, {"scale": 2.0}, {"center_temperature": 1.0}, {"margin": 0.5, "center_temperature": 0.02}]
)
@of_batches("size, classes, centers", [(1, 2, 2), (7, 3, 10), (13, 20, 3), (30, 5, 1)])
def test_equal_to_a_loop_over_centers(make_similarities, size, classes, centers, dtype, tolerance, arguments):
    labels, similarities = make_similarities(size, classes, centers, dtype=dtype)
    values = SoftTriple(**arguments).call(labels, similarities)
    assert values.dtype == dtype
    np.testing.assert_allclose(values, naive(labels, similarities, **arguments), rtol=tolerance, atol=tolerance)
    if centers == 1:
        np.testing.assert_allclose(SoftTriple(**arguments).call(labels, similarities[..., 0]), values, rtol=tolerance)


def test_by_hand():
    # Weights of the first class' centers are 3/4 and 1/4, of the other's 1/2 each.
    similarities = np.array([[[math.log(3), 0.0], [0.5, 0.5]]])
    values = SoftTriple(scale=2.0, center_temperature=1.0, margin=0.25).call([0], similarities)
    np.testing.assert_allclose(values, [math.log(1 + math.exp(2 * (0.5 - 0.75 * math.log(3) + 0.25)))])


def test_one_class_costs_nothing_with_zero_gradient():
    variable = tf.Variable([[[0.5, 0.1]], [[-1.0, 1.0]]])
    with tf.GradientTape() as tape:
        values = SoftTriple().call([0, 0], variable)
    np.testing.assert_array_equal(values, [0.0, 0.0])
    np.testing.assert_array_equal(tape.gradient(values, variable), np.zeros((2, 1, 2)))


def test_the_layer_has_several_centers_a_class_and_merges_them():
    layer = SoftTriple(classes=3).make_layer()
    assert (layer.per_class, layer.regularizer.per_class, layer.regularizer.weight) == (10, 10, 0.2)


def test_nothing_to_merge_means_no_regularizer():
    for loss in (SoftTriple(classes=3, merging=0.0), SoftTriple(classes=3, per_class=1)):
        layer = loss.make_layer()
        layer.build((None, 4))
        assert layer.regularizer is None and not layer.losses


class Learners(EmbeddingModel):
    """As many learners as given, each a linear layer on flat images."""

    def __init__(self, learners):
        super().__init__()
        self.parts = [keras.layers.Dense(4) for _ in range(learners)]

    def learner_embeddings(self, images, training=False):
        flat = tf.reshape(images, (-1, 12))
        return tf.stack([tf.math.l2_normalize(part(flat), axis=-1) for part in self.parts], axis=1)


@pytest.mark.slow
@pytest.mark.parametrize("learners, run_eagerly", [(1, True), (2, False)])
def test_a_method_adds_what_merges_centers_once_a_step_for_each_learner(learners, run_eagerly):
    keras.utils.set_random_seed(0)
    images = np.random.default_rng(0).normal(size=(8, 2, 2, 3)).astype(np.float32)
    labels = np.arange(8) % 3
    model = Learners(learners)
    loss = SoftTriple(classes=3, per_class=4, merging=2.0)
    model.compile(keras.optimizers.SGD(0.1), loss=loss, run_eagerly=run_eagerly)
    model(images)
    for _ in range(3):
        layers = model.loss_layers.learners
        assert len(layers) == learners
        embeddings = model(images, merged=False)
        expected = 0.0
        for k, layer in enumerate(layers):
            expected += float(loss(labels, layer(embeddings[:, k])))
            expected += merging(layer.proxies.numpy(), 4, weight=2.0)
        assert model.evaluate(images, labels, verbose=0, return_dict=True)["loss"] == pytest.approx(expected, rel=1e-5)
        model.reset_metrics()
        assert model.train_on_batch(images, labels, return_dict=True)["loss"] == pytest.approx(expected, rel=1e-5)
        model.reset_metrics()


def test_the_step_of_a_method_merges_centers():
    keras.utils.set_random_seed(0)
    model = tfdml.Single(tfdml.backbones.Small(width=8, stages=2), embedding_size=4)
    model.compile(keras.optimizers.SGD(1.0), loss=SoftTriple(classes=2, per_class=3, merging=5.0))
    # Images and centers of no class of theirs: what is left for the centers of the second is to merge.
    images, labels = np.random.default_rng(0).normal(size=(4, 12, 12, 3)).astype(np.float32), np.zeros(4, int)
    model(images)
    (layer,) = model.loss_layers.learners
    before = merging(layer.proxies.numpy()[3:], 3)
    for _ in range(5):
        model.train_on_batch(images, labels)
    assert merging(layer.proxies.numpy()[3:], 3) < 0.9 * before


@pytest.mark.parametrize("run_eagerly", [True, False])
def test_plain_keras_adds_what_merges_centers_once_a_step(run_eagerly):
    loss = SoftTriple(classes=3, per_class=4, merging=2.0)
    rows, labels = np.random.default_rng(0).normal(size=(8, 5)).astype(np.float32), np.arange(8) % 3
    layer = loss.make_layer()
    model = keras.Sequential([keras.Input((5,)), keras.layers.Dense(4), layer])
    model.compile(keras.optimizers.SGD(0.1), loss=loss, run_eagerly=run_eagerly)
    for _ in range(3):
        expected = float(loss(labels, model(rows))) + merging(layer.proxies.numpy(), 4, weight=2.0)
        (history,) = model.fit(rows, labels, batch_size=8, verbose=0).history["loss"]
        assert history == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"scale": 0.0}, "scale to be a number above 0; received 0.0"),
        ({"center_temperature": -1.0}, "center_temperature to be a number above 0; received -1.0"),
    ],
)
def test_bad_arguments_are_told(arguments, message):
    with pytest.raises(ValueError, match=message):
        SoftTriple(**arguments)
    with pytest.raises(ValueError, match="merging to be a number of 0 or more; received -1"):
        SoftTriple(merging=-1)
