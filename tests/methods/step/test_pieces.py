"""Batches in pieces take the step of whole batches."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfdml
from tests.methods.test_every_method import make, two_layers
from tests.night import others_at_night
from tfdml.backbones import Small

IMAGES = np.random.default_rng(0).normal(size=(8, 8, 8, 3)).astype(np.float32)
LABELS = np.array([0, 0, 1, 1, 2, 2, 0, 1])
ENSEMBLES = ("attention_ensemble", "multi_head", "multi_tail")


def stepped(method, pieces, backbone, batches=1, jit_compile=False, loss="proxy_nca(classes=3)", memory=None, **more):
    """Weights after the steps, what they were before them, and their loss and norms."""
    keras.utils.set_random_seed(0)
    model = make(method, backbone(), **more)
    optimizer = keras.optimizers.SGD(0.5)
    model.compile(optimizer, loss=loss, pieces=pieces, memory=memory, jit_compile=jit_compile)
    model(IMAGES)
    before = model.get_weights()
    targets = {"label": LABELS, "learner": np.ones(8, int)} if method == "divide_and_conquer" else LABELS
    dataset = tf.data.Dataset.from_tensor_slices((IMAGES, targets)).batch(8, drop_remainder=True).repeat(batches)
    history = model.fit(dataset, verbose=0).history
    return before, model.get_weights(), {name: values[0] for name, values in history.items()}


def check_same(whole, divided):
    for one, other in zip(whole[0], divided[0], strict=True):
        np.testing.assert_array_equal(one, other)
    assert max(np.abs(one - other).max() for one, other in zip(whole[0], whole[1], strict=True)) > 1e-3
    for one, other in zip(whole[1], divided[1], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)
    assert whole[2].keys() == divided[2].keys()
    for name, value in whole[2].items():
        assert divided[2][name] == pytest.approx(value, rel=1e-3), name


# Not those whose branches have batch norm of their own.
@pytest.mark.slow
@pytest.mark.parametrize("method", others_at_night(["single", "divide_and_conquer", *ENSEMBLES], ["single"]))
def test_every_method_takes_the_same_step(method):
    check_same(stepped(method, 1, two_layers), stepped(method, 4, two_layers))


class Watch(keras.layers.Layer):
    """Notes how many images it sees in a compiled step."""

    def __init__(self, note):
        super().__init__()
        self.note = note

    def call(self, images):
        if not tf.executing_eagerly():
            self.note(images.shape[0])
        return images

    def compute_output_shape(self, shape):
        return shape


def test_the_network_never_sees_more_than_a_piece():
    """So its activations need so much less memory."""
    seen = set()
    model = make("single", keras.Sequential([Watch(seen.add), two_layers()]))
    model.compile("sgd", loss="contrastive", pieces=4)
    model(IMAGES)
    # Until here it was built, by whole batches.
    seen.clear()
    model.train_on_batch(IMAGES, LABELS)
    assert seen == {2}


@pytest.mark.slow
def test_pairs_within_the_batch_and_with_past_ones():
    """Of a pair, the images may be in two pieces."""
    more = {"loss": "multi_similarity", "memory": "xbm(size=8, start=1)", "batches": 2}
    check_same(stepped("single", 1, two_layers, **more), stepped("single", 4, two_layers, **more))


def frozen_norms():
    backbone = Small(width=2, stages=2)
    for layer in backbone.layers:
        if isinstance(layer, keras.layers.BatchNormalization):
            layer.moving_variance.assign(3.0 * layer.moving_variance)
    return backbone


@pytest.mark.slow
@pytest.mark.parametrize("which", ["statistics", pytest.param("all", marks=pytest.mark.nightly)])
def test_with_frozen_batch_norm(which):
    more = {"backbone": frozen_norms, "freeze_batch_norm": which, "batches": 2}
    check_same(stepped("single", 1, **more), stepped("single", 8, **more))


@pytest.mark.nightly
@pytest.mark.slow
def test_compiled_by_xla():
    check_same(stepped("single", 1, two_layers), stepped("single", 2, two_layers, jit_compile=True))


def fit(pieces, backbone=None, images=IMAGES, **more):
    model = make("single", backbone or two_layers(), **more)
    model.compile("sgd", loss="triplet(mining='all')", pieces=pieces)
    model.fit(images, LABELS[: len(images)], batch_size=len(images), verbose=0)


def drawing(layer):
    inputs = keras.Input((8, 8, 3))
    outputs = layer(keras.layers.Conv2D(2, 1)(inputs))
    about = {"mean": (127.5,) * 3, "std": (63.75,) * 3, "image_size": 8}
    return tfdml.backbones.Backbone(inputs, {"output": outputs}, **about)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"pieces": 0}, "pieces must be an integer of at least 1. Received: pieces=0"),
        ({"pieces": 3}, "multiple of pieces=3. Received: batches of 8 images"),
        ({"pieces": 2, "backbone": Small(width=2, stages=2)}, "Freeze batch norm with freeze_batch_norm='statistics'"),
        ({"pieces": 2, "backbone": drawing(keras.layers.Dropout(0.5, name="drop"))}, "drop draws random numbers"),
        ({"pieces": 2, "backbone": drawing(keras.layers.RandomFlip(name="flip"))}, "flip draws random numbers"),
    ],
)
def test_what_cannot_be_is_told(arguments, message):
    with pytest.raises(ValueError, match=message):
        fit(**arguments)
