"""Branching points and depths of attention on GoogLeNet, Sec. 6.3 and Figure 7 of Attention-based Ensemble."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.night import others_at_night
from tfdml.backbones import GoogLeNet
from tfdml.methods import AttentionEnsemble

BLOCKS = ["3a", "3b", "4a", "4b", "4c", "4d", "4e", "5a", "5b"]
# Branch to side and channels of its features for images of 64 x 64, and the first block behind it.
BRANCHES = {
    "pool2": (8, 192, "3a"),
    "inception_3a": (8, 256, "3b"),
    "inception_3b": (8, 480, "4a"),
    "pool3": (4, 480, "4a"),
    "inception_4a": (4, 512, "4b"),
    "inception_4b": (4, 512, "4c"),
}
BY_DAY = [("inception_4b", 5), ("pool3", 7)]
CASES = [*((branch, 5) for branch in BRANCHES), *(("pool3", depth) for depth in (1, 2, 3, 4, 6, 7))]
googlenet = functools.cache(GoogLeNet)


def cases(every):
    return pytest.mark.parametrize("branch, depth", others_at_night(every, BY_DAY))


@pytest.mark.slow
@cases(CASES)
def test_masks_fit_the_features_at_every_branch_and_depth(branch, depth):
    """On symbolic images: shapes of any batch, and the blocks that attention is a copy of, without their poolings."""
    side, channels, first = BRANCHES[branch]
    model = AttentionEnsemble(googlenet(), embedding_size=16, learners=2, branch=branch, attention_depth=depth)
    images = keras.Input((64, 64, 3))
    assert model.attention_masks(images).shape == (None, 2, side, side, channels)
    assert model.learner_features(images).shape == (None, 2, side, side, channels)
    assert model.learner_embeddings(images).shape == (None, 2, 8)
    names = [layer.name for layer in model.attention.layers]
    start = BLOCKS.index(first)
    copies = {block for block in BLOCKS if any(name.startswith(f"attention_inception_{block}") for name in names)}
    assert copies == set(BLOCKS[start : start + depth])
    assert not any(
        isinstance(layer, keras.layers.MaxPooling2D) and layer.strides != (1, 1) for layer in model.attention.layers
    )


@pytest.mark.slow
@cases([("pool2", 5), ("inception_4b", 5), ("pool3", 1), ("pool3", 7)])
@pytest.mark.few_by_day(1)
def test_every_part_learns(branch, depth):
    keras.utils.set_random_seed(0)
    model = AttentionEnsemble(googlenet(), embedding_size=16, learners=2, branch=branch, attention_depth=depth)
    images = tf.random.stateless_normal((2, 32, 32, 3), (0, 0), stddev=50.0)
    with tf.GradientTape() as tape:
        # Any direction of the embeddings will do.
        value = tf.reduce_sum(model.learner_embeddings(images) * np.linspace(-1, 1, 16).reshape(2, 8))
    weights = model.trainable_variables
    gradients = tape.gradient(value, [weight.value for weight in weights])
    assert len({id(weight) for weight in weights}) == len(weights)
    assert not any(gradient is None for gradient in gradients)
    sizes = np.array([float(tf.norm(gradient)) for gradient in gradients])
    assert np.all(np.isfinite(sizes))
    still = [weight.path for weight, size in zip(weights, sizes, strict=True) if size == 0]
    assert not still, still
