"""Losses that declare nothing have the defaults, in every place that asks."""

import keras
import numpy as np
import pytest

import tfdml
from tfdml.layers import LossLayer
from tfdml.layers.loss_layer import layer_of
from tfdml.losses import EmbeddingLoss, ProxyNCA, Triplet, WeightedSum
from tfdml.registry.loss_hooks import LossHooks, hooks_of

IMAGES = np.random.default_rng(0).normal(size=(8, 8, 8, 3)).astype(np.float32)
LABELS = np.repeat(np.arange(4), 2)


@keras.saving.register_keras_serializable("tests")
class Length(keras.losses.Loss):
    """A user's loss of plain Keras, whose attributes are no hooks."""

    needs_pairs, classes = True, 2

    def call(self, labels, embeddings):
        return keras.ops.sum(keras.ops.square(embeddings - 1.0), axis=1)


class Shift(LossLayer):
    """A user's layer with a variable, and no opinion on slices."""

    def build(self, embeddings_shape, labels_shape=None):
        self.shift = self.add_weight(name="shift", shape=(1,), initializer="ones")

    def call(self, embeddings, labels=None):
        return embeddings + self.shift

    def compute_output_shape(self, embeddings_shape, labels_shape=None):
        return embeddings_shape


class Shifted(EmbeddingLoss):
    def call(self, labels, embeddings):
        return keras.ops.sum(keras.ops.square(embeddings), axis=1)

    def make_layer(self):
        return Shift()


class WithDense(Shifted):
    def make_layer(self):
        return keras.layers.Dense(4)


def fitted(model, loss, targets=LABELS):
    keras.utils.set_random_seed(0)
    model(IMAGES[:1])
    model.compile(keras.optimizers.Adam(0.1), loss=loss, run_eagerly=True)
    model.fit(IMAGES, targets, batch_size=8, verbose=0)
    return model


@pytest.mark.parametrize("loss", [Length(), keras.losses.MeanSquaredError(), None])
def test_other_losses_have_the_defaults(loss):
    hooks = hooks_of(loss)
    assert type(hooks) is LossHooks
    assert (hooks.needs_pairs, hooks.batch_parts, hooks.classes) == (False, 1, None)
    assert hooks.statistics(LABELS, IMAGES) == {} and hooks.callbacks(None) == [] and layer_of(loss) is None


def test_a_method_trains_with_a_loss_of_plain_keras():
    model = fitted(tfdml.Single(tfdml.backbones.Small(width=4, stages=1), embedding_size=4), Length())
    assert set(model.loss_statistics()) == {"positive_distance", "negative_distance"}
    assert not model.loss_layers.learners


def test_a_sum_declares_what_its_losses_do():
    of_pairs = WeightedSum([(1.0, Length()), (1.0, Triplet(mining="given"))])
    assert (of_pairs.needs_pairs, of_pairs.batch_parts, of_pairs.classes) == (True, 3, None)
    of_classes = WeightedSum([(1.0, Length()), (1.0, ProxyNCA(classes=4)), (1.0, ProxyNCA(classes=3))])
    assert (of_classes.needs_pairs, of_classes.batch_parts, of_classes.classes) == (False, 1, 3)
    # Proxies are not compared once more for statistics that no loss of the sum has.
    of_proxies = WeightedSum([(1.0, ProxyNCA(classes=4)), (1.0, ProxyNCA(classes=3))])
    assert of_pairs.has_statistics and not of_proxies.has_statistics


def test_a_layer_that_says_nothing_of_slices_stays_as_it_is():
    backbone = tfdml.backbones.Small(width=4, stages=1)
    model = tfdml.DivideAndConquer(backbone, embedding_size=4, learners=2, divide_at=1, merge_at=2)
    fitted(model, WeightedSum([(1.0, Shifted()), (1.0, ProxyNCA(classes=4))]))
    before = [layer.parts[0].shift.numpy() for layer in model.loss_layers.learners]
    assert len(before) == 3 and not np.array_equal(before[0], before[2])
    for epoch in (1, 2):
        model.begin_epoch(epoch)
        np.testing.assert_array_equal([layer.parts[0].shift for layer in model.loss_layers.learners], before)


@pytest.mark.parametrize("make", [WithDense, lambda: WeightedSum([(1.0, WithDense())])], ids=["alone", "in a sum"])
def test_a_layer_of_another_kind_is_an_error(make):
    with pytest.raises(TypeError, match=r"WithDense.make_layer\(\) must return a .* Received: Dense"):
        layer_of(make())
