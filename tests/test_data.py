"""Batches of people's own images, also two views of each: how they are scaled, and that training resumes."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfdml
from pipelines.preprocessor import Preprocessor
from tests.pipelines.test_build import assert_same, collected

SIDE, COUNT = 12, 24
PICTURES = np.random.default_rng(0).integers(0, 256, (COUNT, SIDE, SIDE, 3)).astype(np.uint8)
LABELS = np.repeat(np.arange(6), 4) + 100
# Labels by whose mean batches are told apart.
POWERS = 7 ** (LABELS - 100)
PLAIN = {"mean": (0, 0, 0), "std": (1, 1, 1), "image_size": SIDE}
SMALL = {"classes": 3, "per_class": 2, **PLAIN}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pictures")
    for number, picture in enumerate(PICTURES):
        keras.utils.save_img(folder / f"{number}.png", picture, scale=False)
    return [folder / f"{number}.png" for number in range(COUNT)]


@pytest.fixture(scope="module")
def whole():
    """15 batches in one pass."""
    return collected(tfdml.data.pxk(PICTURES, POWERS, **SMALL, steps_per_epoch=15))


@pytest.mark.slow
def test_batches_of_files_and_of_arrays(files):
    names = np.array(["wren", "crow", "ant", "jay"])[LABELS % 4]
    batches = tfdml.data.pxk(files, names, **SMALL, transform="center_crop|flip")
    assert len(batches) == 4
    assert [part.shape for part in batches.element_spec] == [(6, SIDE, SIDE, 3), (6,)]
    images, labels = collected(batches)
    assert images.dtype == np.float32 and labels.dtype == np.int64
    for batch_labels in labels:
        assert np.unique(batch_labels, return_counts=True)[1].tolist() == [2, 2, 2]
    name_of = {}
    for picture, name in zip(PICTURES, names, strict=True):
        name_of |= {picture.tobytes(): name, picture[:, ::-1].tobytes(): name}
    flat = images.astype(np.uint8).reshape(-1, SIDE, SIDE, 3)
    assert np.unique(names)[labels.ravel()].tolist() == [name_of[image.tobytes()] for image in flat]
    # The same pictures with borders that `center_crop` takes away.
    framed = [np.pad(picture, 2 * [(row % 2, row % 2)] + [(0, 0)]) for row, picture in enumerate(PICTURES)]
    again = tfdml.data.pxk(framed, names, **SMALL, transform="center_crop|flip")
    assert_same(collected(again), (images, labels))


def test_decoded_pixels_are_prepared_as_files_are(files):
    seed, contents = tf.constant([1, 2], tf.int64), files[0].read_bytes()
    for transform in ("random_resized_crop(area=(0.3, 1.0))|flip", "resize_short(size=9)|center_crop(size=7)", "warp"):
        prepare = Preprocessor(transform, image_size=7, mean=(1, 2, 3), std=(4, 5, 6), channels="bgr")
        np.testing.assert_array_equal(prepare.from_pixels(PICTURES[0], seed), prepare(contents, seed))


@pytest.mark.slow
def test_images_have_a_height_and_a_width():
    size = {**PLAIN, "image_size": (8, 4)}
    (images,) = tfdml.data.in_order(PICTURES, transform="warp", batch_size=COUNT, **size)
    prepare = Preprocessor("warp", image_size=(8, 4), mean=(0, 0, 0), std=(1, 1, 1))
    assert images.shape == (COUNT, 8, 4, 3)
    np.testing.assert_array_equal(images[3], prepare.from_pixels(PICTURES[3], tf.zeros([2], tf.int64)))
    batches = tfdml.data.pxk(PICTURES, LABELS, classes=3, per_class=2, **size)
    assert batches.element_spec[0].shape == (6, 8, 4, 3)


@pytest.mark.few_by_day(1)
def test_a_pass_goes_on_where_the_last_one_ended(whole):
    batches = tfdml.data.pxk(PICTURES, POWERS, **SMALL, steps_per_epoch=5)
    # A look at a batch is no pass.
    assert_same(collected(batches.take(1)), [part[:1] for part in whole])
    next(iter(batches))
    for start in (0, 5, 10):
        assert_same(collected(batches), [part[start : start + 5] for part in whole])
    later = tfdml.data.pxk(PICTURES, POWERS, **SMALL, steps_per_epoch=5, initial_step=10)
    assert_same(collected(later), [part[10:] for part in whole])


@pytest.mark.slow
@pytest.mark.parametrize("strategy", [tf.distribute.get_strategy(), tf.distribute.MirroredStrategy(["CPU:0"])])
@pytest.mark.few_by_day(1)
def test_keras_fits_epoch_after_epoch(whole, strategy):
    """Whatever Keras looks at before it begins, and though it stops at the last batch of an epoch."""
    with strategy.scope():
        batches = tfdml.data.pxk(PICTURES, POWERS, **SMALL, steps_per_epoch=5)
        model = keras.Sequential([keras.Input((SIDE, SIDE, 3)), keras.layers.GlobalAveragePooling2D()])
        model.compile(loss=lambda labels, predicted: tf.cast(labels, tf.float32) + 0 * predicted[:, 0])
    history = model.fit(batches, epochs=3, shuffle=False, verbose=0)
    expected = whole[1].reshape(3, -1).mean(1)
    assert len(set(expected.tolist())) == 3
    np.testing.assert_allclose(history.history["loss"], expected, rtol=1e-5)


def declaring():
    inputs = keras.Input((None, None, 3))
    features = {"features": keras.layers.Conv2D(4, 1)(inputs)}
    about = {"mean": (104.0, 117.0, 123.0), "std": (2.0, 4.0, 5.0), "channels": "bgr", "image_size": SIDE}
    return tfdml.backbones.Backbone(inputs, features, **about)


def test_pixels_are_scaled_as_the_backbone_declares():
    backbone = declaring()
    mean, std = np.float32(backbone.mean), np.float32(backbone.std)
    expected = (PICTURES[..., ::-1] - mean) / std
    for model in (backbone, tfdml.Single(backbone, embedding_size=3)):
        (images,) = tfdml.data.in_order(PICTURES, backbone=model, batch_size=COUNT)
        np.testing.assert_allclose(images, expected, rtol=1e-6)
    given = {"mean": mean, "std": std, "channels": "bgr", "image_size": 8}
    (images,) = tfdml.data.in_order(PICTURES, backbone=backbone, image_size=8, batch_size=COUNT)
    assert images.shape == (COUNT, 8, 8, 3)
    np.testing.assert_array_equal(images, next(iter(tfdml.data.in_order(PICTURES, **given, batch_size=COUNT))))


def test_images_in_order_make_full_batches(files):
    rows = tf.constant(PICTURES)
    given = tf.data.Dataset.from_tensor_slices((PICTURES, LABELS))
    for images, more in ((files, {}), (given, {}), (lambda row: rows[row], {"count": COUNT})):
        batches = tfdml.data.in_order(images, **PLAIN, **more, batch_size=10)
        found = np.concatenate(list(batches.as_numpy_iterator()))
        np.testing.assert_array_equal(found[:COUNT], PICTURES)
        assert len(found) == 30


def test_without_a_transform_anything_is_batched_as_it_is():
    features = np.random.default_rng(0).normal(size=(COUNT, 5))
    found, labels = collected(tfdml.data.pxk(features, LABELS, classes=3, per_class=2, transform=None))
    label_of = {row.tobytes(): label for row, label in zip(features, LABELS, strict=True)}
    assert [label_of[row.tobytes()] for row in found.reshape(-1, 5)] == labels.ravel().tolist()


BAD = {
    "no_scaling": ({"mean": None}, "The pixel scaling is missing"),
    "scaling_twice": ({"backbone": declaring}, "Received both"),
    "channels_twice": ({"mean": None, "std": None, "channels": "bgr", "backbone": declaring}, "mean, std or channels"),
    "silent_backbone": (
        {"mean": None, "std": None, "backbone": keras.Sequential},
        "does not declare its pixel scaling",
    ),
    "silent_in_a_model": (
        {"mean": None, "std": None, "backbone": lambda: tfdml.Single(keras.Sequential(), name="mine")},
        "mine.* does not declare its pixel scaling",
    ),
    "no_size": ({"image_size": None}, "image_size is missing"),
    "no_height_or_width": (
        {"image_size": (8, 0)},
        r"image_size to be None or an integer from 1 to 4096, the side of a square, or a pair .*eceived.*\(8, 0",
    ),
    "scaled_already": ({"images": lambda: PICTURES / 255.0}, "Image 0 has pixels from 0 to 1. Expected pixels"),
    "around_zero": ({"images": lambda: PICTURES / 127.5 - 1}, "has pixels from -.* Expected pixels from 0 to 255"),
    "sixteen_bits": (
        {"images": lambda: PICTURES.astype("uint16") * 257},
        "Image 0 has pixels from 0 to .* Expected pixels from 0 to 255",
    ),
    "no_batch_in_a_pass": ({"steps_per_epoch": -1}, "pxk expects steps_per_epoch to be"),
    "scaling_of_0_to_1": ({"mean": (0.5,) * 3, "std": (0.2,) * 3}, "are for pixels from 0 to 1. Multiply both by 255"),
    "scaling_by_zero": ({"std": (0, 1, 1)}, "All numbers in std must be above 0"),
    "scaling_by_one_number": ({"mean": 127.5}, "mean must be three numbers, one per channel. Received: mean=127.5"),
    "grey": ({"images": lambda: PICTURES[..., :1]}, r"\[height, width, 3\]. Received: shape \(12, 12, 1\)"),
    "no_labels": ({"labels": None}, "labels is missing"),
    "too_few_labels": ({"labels": LABELS[1:]}, "Received: 24 images and 23 labels"),
    "labels_twice": ({"images": lambda: tf.data.Dataset.from_tensors((PICTURES, LABELS))}, "labels must be None"),
    "one_class": ({"classes": 1}, "pxk expects classes to be an integer of 2 or more. Received: classes=1"),
    "too_many_classes": ({"classes": 7}, r"pxk\(classes=7\) .* have 6. Lower classes"),
    "inside_an_epoch": ({"initial_step": 3}, "multiple of steps_per_epoch=4. Received: initial_step=3"),
    "raw_files": ({"images": lambda: [b"\0"] * COUNT, "transform": None}, "does not work with image files"),
    "raw_and_scaled": ({"transform": None}, "transform=None leaves arrays unchanged"),
}


@pytest.mark.parametrize("changes, message", BAD.values(), ids=BAD)
def test_what_is_wrong_with_pxk_is_told(changes, message):
    arguments = {"images": PICTURES, "labels": LABELS, **SMALL, **changes}
    made = {name: value() if callable(value) else value for name, value in arguments.items()}
    with pytest.raises(ValueError, match=message):
        tfdml.data.pxk(**made)


def test_a_function_of_a_row_needs_its_count():
    with pytest.raises(ValueError, match="count is missing"):
        tfdml.data.in_order(lambda row: tf.zeros([4, 4, 3]), **PLAIN)


def test_other_names_of_the_package_are_an_error():
    with pytest.raises(AttributeError, match="module 'tfdml' has no attribute 'dta'"):
        tfdml.dta  # noqa: B018


VIEWS = {**PLAIN, "batch_images": 6}


@pytest.fixture(scope="module")
def views():
    """Twelve batches in one pass."""
    return collected(tfdml.data.views(PICTURES, **VIEWS, steps_per_epoch=12))


def test_views_of_an_image_differ_and_have_its_number(views):
    images, numbers = views
    assert images.shape == (12, 12, 12, 12, 3) and numbers.shape == (12, 12)
    for batch, rows in zip(images, numbers, strict=True):
        np.testing.assert_array_equal(rows[:6], rows[6:])
        assert len(set(rows)) == 6 and all(
            np.any(one != other) for one, other in zip(batch[:6], batch[6:], strict=True)
        )


def test_a_batch_of_views_is_a_function_of_seed_and_step(views):
    again = tfdml.data.views(PICTURES, **VIEWS, steps_per_epoch=4, initial_step=4)
    assert_same(collected(again), [part[4:8] for part in views])
    other = collected(tfdml.data.views(PICTURES, **VIEWS, steps_per_epoch=12, seed=1))
    assert np.any(other[1] != views[1])


@pytest.mark.nightly
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
        (PICTURES, {"transform": "warp"}, "'warp' is not random, so all views of an image are equal"),
        (PICTURES, {"batch_images": 25}, "needs that many training images. Received: 24"),
        (PICTURES, {"batch_images": 1}, "batch_images"),
        (tf.data.Dataset.from_tensors(PICTURES), {}, "images cannot be a tf.data.Dataset"),
        (lambda row: PICTURES[0], {}, "count is missing"),
    ],
)
def test_what_is_wrong_with_views_is_told(images, more, message):
    with pytest.raises(ValueError, match=message):
        tfdml.data.views(images, **{**VIEWS, **more})
