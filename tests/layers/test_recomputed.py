"""Blocks that gradients compute again: the same step, with nothing of a block kept."""

import keras
import numpy as np
import pytest

import tfdml
from tests.commands import assert_one_error, run
from tests.run_helpers import train_flags
from tfdml.layers.blocks import recompute_blocks

CALLS = []


@keras.saving.register_keras_serializable(package="tests")
class Block(keras.layers.Layer):
    """A residual block, made of layers."""

    def __init__(self, rate=0.0, **kwargs):
        super().__init__(**kwargs)
        self.norm, self.first = keras.layers.LayerNormalization(), keras.layers.Dense(16, "gelu")
        self.last, self.drop = keras.layers.Dense(8), keras.layers.Dropout(rate, name="drop")

    def build(self, shape):
        self.norm.build(shape)
        self.first.build(shape)
        self.last.build((*shape[:-1], 16))

    def call(self, tokens, scale=None):
        CALLS.append(self.name)
        return tokens + self.drop(self.last(self.first(self.norm(tokens)))) * (1.0 if scale is None else scale)


def network(rate=0.0):
    # Whose weights change much in two steps.
    keras.utils.set_random_seed(2)
    images = keras.layers.Input((8, 8, 3))
    tokens = keras.layers.Reshape((4, 8))(keras.layers.Conv2D(8, 4, strides=4)(images))
    tokens = Block(rate, name="first")(tokens)
    # A tensor by name has a gradient, too.
    tokens = Block(name="second")(tokens, scale=keras.layers.Dense(8)(tokens))
    return keras.Model(images, tokens, name="network")


def stepped(backbone):
    """The weights after two steps of training, and how often a step calls each block."""
    keras.utils.set_random_seed(0)
    model = tfdml.Single(backbone, embedding_size=4)
    rng = np.random.default_rng(0)
    images, labels = rng.normal(size=(8, 8, 8, 3)).astype(np.float32), np.repeat([0, 1], 4)
    model.compile(keras.optimizers.SGD(0.1), loss="triplet(margin=2.0, mining='all')")
    model(images)
    CALLS.clear()
    model.fit(images, labels, batch_size=8, epochs=2, verbose=0)
    return [each.numpy() for each in model.weights], len(CALLS)


@pytest.mark.nightly
def test_a_step_is_the_same_and_calls_blocks_again():
    plain, again = network(), network()
    again.set_weights(plain.get_weights())
    before = plain.get_weights()
    assert recompute_blocks(again) == 2
    (expected, once), (found, twice) = stepped(plain), stepped(again)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)
    assert any(np.abs(one - other).max() > 1e-3 for one, other in zip(before, expected, strict=False))
    assert twice == once + 2


# Rounding of two steps, in numbers with 8 and 11 bits.
@pytest.mark.nightly
@pytest.mark.parametrize(
    "policy, rounding",
    [("mixed_bfloat16", 0.015), pytest.param("mixed_float16", 0.001, marks=pytest.mark.nightly)],
)
def test_in_mixed_precision_it_differs_by_rounding_alone(policy, rounding):
    before, weights = keras.config.dtype_policy(), network().get_weights()
    keras.config.set_dtype_policy(policy)
    try:
        plain, again = network(), network()
        for each in (plain, again):
            each.set_weights(weights)
        recompute_blocks(again)
        (expected, _), (found, _) = stepped(plain), stepped(again)
    finally:
        keras.config.set_dtype_policy(before)
    assert max(np.abs(one - other).max() for one, other in zip(expected, weights, strict=False)) > 10 * rounding
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, atol=rounding)


@pytest.mark.parametrize(
    "make, words",
    [
        (lambda: network(rate=0.5), "drop draws random numbers, which does not work with recomputed blocks"),
        (lambda: tfdml.backbones.Small(width=8, stages=2), "small has no blocks that are layers made of layers"),
    ],
)
def test_what_cannot_be_computed_again_is_refused(make, words):
    with pytest.raises(ValueError, match=words):
        recompute_blocks(make())


@pytest.mark.slow
def test_a_run_without_blocks_is_one_line(tmp_path):
    done = run("tfdml.train", *train_flags(tmp_path / "run", "--remat"))
    assert_one_error(done, "--remat: small has no blocks that are layers made of layers")
