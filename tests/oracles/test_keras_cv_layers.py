"""Layers of keras-cv itself as steps of a transform; tests/pipelines/transforms/test_layer.py has a stand-in."""

import numpy as np
import pytest
import tensorflow as tf

from tests.pipelines.steps import IMAGE
from tfdml import registry


@pytest.mark.parametrize(
    "spec, random",
    [
        ("layer('ChannelShuffle')", True),
        ("layer('keras_cv.GridMask')", True),
        ("layer('keras_cv.RandAugment')", True),
        ("layer('RandomCutout', height_factor=0.4, width_factor=0.4)", True),
        ("layer('RandomJpegQuality', factor=(5, 90))", True),
        ("layer('RandomChannelShift', factor=0.3)", True),
        ("layer('Posterization', bits=3)", False),
        ("layer('keras_cv.Equalization')", False),
    ],
)
def test_draws_depend_on_the_seed_alone(spec, random):
    image = tf.constant(IMAGE, tf.float32)
    seeds = [tf.constant([seed, 7], tf.int64) for seed in range(8)]
    first = registry.create("transform", spec)
    found = [first(image, seed).numpy() for seed in seeds]
    again = registry.create("transform", spec)
    for place in (5, 2, 2):
        np.testing.assert_array_equal(again(image, seeds[place]), found[place])
    assert len({each.tobytes() for each in found}) > 3 if random else len({each.tobytes() for each in found}) == 1
    assert np.any(found[1] != IMAGE)


def test_what_draws_otherwise_is_refused():
    step = registry.create("transform", "layer('keras_cv.AugMix')")
    with pytest.raises(ValueError, match="draws random numbers from its own state"):
        step(tf.constant(IMAGE, tf.float32), tf.constant([1, 7], tf.int64))
