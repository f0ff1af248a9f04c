"""What is no number stays none: a loss that hid it would let a broken run go on."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfdml
from tests.night import others_at_night
from tfdml import registry

# Of the second no anchor has a negative, of the third none has a positive.
LABELINGS = {"pairs": np.repeat([0, 1], 3), "one class": np.zeros(6, int), "all different": np.arange(6)}
of_labelings = pytest.mark.parametrize("labeling", LABELINGS)
# A compiled function may compute a minimum or a maximum without the NaN among its numbers.
SWALLOWED = ["multi_similarity", "ranked_list", "ranked_list_simpler"]
SWALLOWED_BY_XLA = ["nested(loss='triplet(mining=\"batch_hard\")', dims=(2, 4))", "triplet(mining='batch_hard')"]


def value_of(loss, make_feed, labels, compiled=lambda function: function):
    embeddings = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)
    embeddings[2] = np.nan
    feed = make_feed(loss, dim=4)
    return compiled(lambda *of: loss(of[0], feed(*of)))(tf.constant(labels), tf.constant(embeddings))


@of_labelings
@pytest.mark.filterwarnings("ignore:All labels of the batch")
@pytest.mark.few_by_day(26)
def test_an_embedding_of_nan_makes_the_loss_nan(make_feed, loss_spec, labeling):
    assert np.isnan(value_of(registry.create("loss", loss_spec), make_feed, LABELINGS[labeling]))


@pytest.mark.filterwarnings("ignore:All labels of the batch")
@pytest.mark.parametrize(
    "spec", ["triplet(distance='euclidean')", "triplet(mining='batch_hard', distance='euclidean')"]
)
def test_an_embedding_of_nan_makes_the_loss_nan_on_plain_distances(make_feed, spec):
    test_an_embedding_of_nan_makes_the_loss_nan(make_feed, spec, "pairs")


@pytest.mark.slow
@pytest.mark.usefixtures("improved_graphs")
@pytest.mark.parametrize("labeling", others_at_night(LABELINGS, ["pairs"]))
@pytest.mark.parametrize(
    "spec, xla", [*((spec, False) for spec in SWALLOWED), *((spec, True) for spec in SWALLOWED_BY_XLA)]
)
def test_so_it_does_in_compiled_functions(make_feed, spec, xla, labeling):
    loss = registry.create("loss", spec)
    assert np.isnan(value_of(loss, make_feed, LABELINGS[labeling], lambda each: tf.function(each, jit_compile=xla)))


def test_without_nan_a_batch_without_pairs_has_a_loss_and_a_gradient_of_zero():
    variable = tf.Variable(np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32))
    with tf.GradientTape() as tape, pytest.warns(UserWarning, match="no negative pair"):
        value = tfdml.losses.Triplet()(np.zeros(6, int), variable)
    assert value == 0.0 and np.all(tape.gradient(value, variable) == 0.0)


class Stages(keras.layers.Layer):
    """A convolution with a relu, which a CPU computes in one operation: of NaN that makes 0."""

    def __init__(self):
        super().__init__()
        self.convolution = keras.layers.Conv2D(4, 3, activation="relu")

    def call(self, images):
        return self.convolution(images)


def images_and_labels():
    images = np.random.default_rng(0).normal(size=(16, 8, 8, 3)).astype(np.float32)
    images[5, 3, 3, 1] = np.nan
    return images, np.repeat(np.arange(4), 4)


@pytest.mark.usefixtures("improved_graphs")
def test_one_image_of_nan_ends_fit_by_terminate_on_nan():
    images, labels = images_and_labels()
    model = tfdml.Single(keras.Sequential([Stages()]), embedding_size=8)
    model.compile(keras.optimizers.SGD(0.1), loss="triplet")
    stop = keras.callbacks.TerminateOnNaN()
    losses = model.fit(images, labels, batch_size=8, epochs=3, shuffle=False, callbacks=[stop], verbose=0).history
    assert len(losses["loss"]) == 1 and np.isnan(losses["loss"][0])


@pytest.mark.usefixtures("improved_graphs")
def test_in_plain_keras_the_guard_sees_it_in_the_weights():
    images, labels = images_and_labels()
    # As relu does in TensorFlow's fused convolutions on some processors, on all of them.
    without_nan = keras.layers.Activation(lambda features: keras.ops.where(keras.ops.isnan(features), 0.0, features))
    model = keras.Sequential([Stages(), without_nan, keras.layers.Flatten(), keras.layers.Dense(8)])
    model.compile(keras.optimizers.SGD(0.1), loss=tfdml.losses.Triplet())
    with pytest.raises(tfdml.callbacks.TrainingDiverged, match="weight .*kernel is not finite at step 2"):
        model.fit(images, labels, batch_size=8, shuffle=False, callbacks=[tfdml.callbacks.DivergenceGuard()], verbose=0)


def test_a_label_of_nan_is_named(loss_spec, make_feed):
    labels = np.array([0, 0, 1, np.nan, 1, 2])
    loss = registry.create("loss", loss_spec)
    taken = make_feed(loss, dim=4)(np.zeros(6, int), np.ones((6, 4), np.float32))
    with pytest.raises(ValueError, match="Received: NaN at position 3 of 6"):
        loss(labels, taken)


@pytest.mark.parametrize("spec", ["triplet", "proxy_nca(classes=7)", "triplet + 0.5*proxy_nca(classes=7)"])
def test_in_a_compiled_function_a_label_of_nan_makes_the_loss_nan(spec, make_batch, make_feed):
    loss = registry.create("loss", spec)
    labels, embeddings = make_batch(6, 3)
    taken = make_feed(loss)(labels, embeddings)
    compiled = tf.function(loss)
    assert np.isfinite(compiled(tf.constant(labels, tf.float32), taken))
    labels = np.where(np.arange(6) == 3, np.nan, labels)
    assert np.isnan(compiled(tf.constant(labels, tf.float32), taken))
