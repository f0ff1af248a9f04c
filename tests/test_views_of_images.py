"""Two views of each of people's own images, for `fit`."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfdml
from tests.pipelines.test_build import assert_same, collected

PICTURES = np.random.default_rng(0).integers(0, 256, (24, 12, 12, 3)).astype(np.uint8)
PLAIN = {"mean": (0, 0, 0), "std": (1, 1, 1), "image_size": 12, "batch_images": 6}


@pytest.fixture(scope="module")
def whole():
    """Twelve batches in one pass."""
    return collected(tfdml.data.views(PICTURES, **PLAIN, steps_per_epoch=12))


def test_views_of_an_image_differ_and_have_its_number(whole):
    images, numbers = whole
    assert images.shape == (12, 12, 12, 12, 3) and numbers.shape == (12, 12)
    for batch, rows in zip(images, numbers, strict=True):
        np.testing.assert_array_equal(rows[:6], rows[6:])
        assert len(set(rows)) == 6 and all(
            np.any(one != other) for one, other in zip(batch[:6], batch[6:], strict=True)
        )


def test_a_batch_is_a_function_of_seed_and_step(whole):
    again = tfdml.data.views(PICTURES, **PLAIN, steps_per_epoch=4, initial_step=4)
    assert_same(collected(again), [part[4:8] for part in whole])
    other = collected(tfdml.data.views(PICTURES, **PLAIN, steps_per_epoch=12, seed=1))
    assert np.any(other[1] != whole[1])


@pytest.mark.slow
@pytest.mark.parametrize(
    "loss, memory",
    [
        ("nt_xent", None),
        ("vicreg(projector=(16, 16)) + barlow_twins(projector=(16, 16))", None),
        *(
            pytest.param(*each, marks=pytest.mark.nightly)
            for each in (("simsiam", None), ("triplet", "xbm(size=48)"), ("multi_similarity", None))
        ),
    ],
)
def test_losses_on_pairs_train_on_views(loss, memory):
    keras.utils.set_random_seed(0)
    backbone = tfdml.backbones.Small(width=8, stages=1)
    model = tfdml.Single(backbone, embedding_size=8)
    model.compile(keras.optimizers.Adam(0.01), loss=loss, memory=memory)
    transform = "random_resized_crop(area=(0.5, 1.0))|flip"
    # Images of one color each, which views keep.
    colors = np.random.default_rng(1).integers(0, 256, (24, 1, 1, 3)) + np.zeros((1, 16, 16, 1))
    batches = tfdml.data.views(colors, batch_images=12, backbone=model, transform=transform, steps_per_epoch=20)
    losses = model.fit(batches, epochs=3, verbose=0, shuffle=False).history["loss"]
    assert losses[-1] < losses[0]


@pytest.mark.parametrize(
    "images, more, message",
    [
        (PICTURES, {"transform": "warp"}, "'warp' draws nothing at random, so that there is one view of an image only"),
        (PICTURES, {"batch_images": 25}, "needs that many training rows, there are 24"),
        (PICTURES, {"batch_images": 1}, "batch_images"),
        (tf.data.Dataset.from_tensors(PICTURES), {}, "received a dataset"),
        (lambda row: PICTURES[0], {}, "count is missing"),
    ],
)
def test_what_cannot_be_done_is_told(images, more, message):
    with pytest.raises(ValueError, match=message):
        tfdml.data.views(images, **{**PLAIN, **more})
