"""What the losses on proxies promise beyond their loops, see `test_loops`."""

import math

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.losses.loops import value_and_gradient
from tfdml.losses import (
    ArcFace,
    GeneralizedCrossEntropy,
    NormSoftmax,
    SoftTriple,
    SubCenterArcFace,
)
from tfdml.methods.embedding_model import EmbeddingModel


def test_past_a_half_turn_it_goes_on_rising_or_follows_the_cosine():
    # The own angle from 0 to a half turn, the other class at a right angle.
    angles = np.linspace(0.01, math.pi - 0.01, 200)
    cosines = np.stack([np.cos(angles), np.zeros(200)], axis=1)
    labels = np.zeros(200, int)
    assert np.all(np.diff(ArcFace(scale=2.0).call(labels, cosines)) > 0)
    bent = np.diff(ArcFace(scale=2.0, monotonic=False).call(labels, cosines))
    rises = angles[1:] < math.pi - 0.5
    assert np.all(bent[rises] > 0) and np.all(bent[~rises][1:] < 0)


@pytest.mark.usefixtures("improved_graphs")
@pytest.mark.parametrize("monotonic", [True, False])
@pytest.mark.parametrize("compiled, dtype", [(False, "float32"), (False, "float64"), (True, "float32")])
def test_finite_gradients_where_the_sine_is_zero(compiled, dtype, monotonic):
    one = np.array(1, dtype)
    near = [1, -1, 0, np.nextafter(one, 0), np.nextafter(-one, 0), np.nextafter(one, 2), np.nextafter(-one, -2)]

    @tf.function(jit_compile=compiled)
    def both(similarities):
        with tf.GradientTape() as tape:
            tape.watch(similarities)
            values = ArcFace(monotonic=monotonic).call(np.zeros(len(near), int), similarities)
        return values, tape.gradient(values, similarities)

    for result in both(tf.constant([[value, 0.5] for value in near], dtype)):
        assert np.all(np.isfinite(result))


def test_gradients_of_embeddings_stay_moderate_near_their_proxy():
    # The slope of the cosine's inverse is steep there, that of the cosine is flat: together neither.
    proxy, other = tf.constant([1.0, 0.0, 0.0]), tf.constant([0.0, 1.0, 0.0])
    for angle in (0.1, 1e-2, 1e-3):
        row = tf.Variable([[math.cos(angle), 0.0, math.sin(angle)]])
        with tf.GradientTape() as tape:
            unit = tf.math.l2_normalize(row, axis=1)
            values = ArcFace(scale=1.0).call([0], tf.matmul(unit, tf.stack([proxy, other], axis=1)))
        length = float(tf.norm(tape.gradient(values, row)))
        assert 0.01 < length < 1.5


def test_only_the_nearest_center_of_each_class_gets_a_gradient():
    cosines = np.array([[[0.1, 0.5, 0.4], [-0.3, -0.2, 0.6]]])
    _, gradient = value_and_gradient(SubCenterArcFace(scale=2.0), [0], cosines)
    np.testing.assert_array_equal(gradient != 0, [[[False, True, False], [False, False, True]]])


def test_near_0_it_is_cross_entropy(make_similarities):
    labels, similarities = make_similarities(dtype="float64")
    values = GeneralizedCrossEntropy(q=1e-7, temperature=0.5).call(labels, similarities)
    np.testing.assert_allclose(values, NormSoftmax(temperature=0.5).call(labels, similarities), rtol=1e-5)


def test_an_improbable_class_pulls_less_than_with_cross_entropy():
    # The class of the first row is improbable, as where its label is wrong.
    shares = []
    for loss in (GeneralizedCrossEntropy(temperature=0.2), NormSoftmax(temperature=0.2)):
        _, gradient = value_and_gradient(loss, [0, 0], [[-1.0, 1.0], [0.2, 0.0]])
        pulls = np.abs(gradient[:, 0])
        shares.append(pulls[0] / pulls.sum())
    assert shares[0] < 0.1 and shares[1] > 0.7


def merging(proxies, per_class, weight=0.2):
    """The regulariser of the paper, pair of centers by pair."""
    total, centers = 0.0, proxies.reshape(-1, per_class, proxies.shape[1]).astype(np.float64)
    for own in centers:
        own = own / np.linalg.norm(own, axis=1, keepdims=True)
        total += sum(math.sqrt(2 - 2 * own[s] @ own[t]) for t in range(per_class) for s in range(t))
    return weight * total / (len(centers) * per_class * (per_class - 1))


def test_layers_have_several_centers_a_class_and_merge_them_where_there_are_some_to_merge():
    assert SubCenterArcFace(classes=4).make_layer().per_class == 3
    layer = SoftTriple(classes=3).make_layer()
    assert (layer.per_class, layer.regularizer.per_class, layer.regularizer.weight) == (10, 10, 0.2)
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
