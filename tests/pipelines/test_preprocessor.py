"""Images are decoded, transformed and scaled as the transform and the backbone say."""

import io

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from pipelines.images.decoding import decode
from pipelines.preprocessor import Preprocessor
from tests.pipelines.image_files import encoded
from tfdml import registry

COLOURS = np.random.default_rng(0).integers(0, 256, (9, 13, 3)).astype(np.uint8)


def apply(spec, image, seed=(0, 0), **offers):
    step = registry.create("transform", spec, **offers)
    return step(tf.constant(np.asarray(image, np.float32)), tf.constant(seed, tf.int64)).numpy()


def gradient_image(height, width):
    """Red is the row and green the column, both from 0 to 1, at pixel centres."""
    rows, columns = np.meshgrid((np.arange(height) + 0.5) / height, (np.arange(width) + 0.5) / width, indexing="ij")
    return np.stack([rows, columns, np.ones_like(rows)], axis=2).astype(np.float32)


@pytest.mark.parametrize(
    "file_format, mode",
    [("PNG", "L"), ("PNG", "LA"), ("PNG", "P"), ("PNG", "RGBA"), ("PNG", "1")]
    + [("JPEG", "RGB"), ("JPEG", "L"), ("WebP", "RGB"), ("WebP", "RGBA")],
)
def test_kinds_of_files_agree_with_pillow(file_format, mode):
    smooth = (255 * gradient_image(9, 13)).astype(np.uint8)
    file = encoded(smooth, file_format, mode)
    image = decode(tf.constant(file))
    assert image.dtype == tf.uint8 and image.shape == (9, 13, 3)
    expected = np.asarray(Image.open(io.BytesIO(file)).convert("RGB")).astype(int)
    # Decoders upsample colour each in its own way.
    np.testing.assert_allclose(image.numpy().astype(int), expected, atol=32 if file_format in ("JPEG", "WebP") else 0)


SIZED = ["random_resized_crop", "random_crop", "random_crop(padding=3)", "center_crop", "resize_pad", "warp"]


@pytest.mark.parametrize("size", [(16, 8), (8, 16), (16, 16)])
@pytest.mark.parametrize("shape", [(9, 13), (40, 25), (1, 1), (3, 200)])
@pytest.mark.parametrize("step", [*SIZED, "resize_short"])
def test_steps_end_in_height_and_width(step, shape, size):
    result = apply(step, gradient_image(*shape), size=size)
    if step == "resize_short":
        assert min(np.subtract(result.shape[:2], size)) == 0
        # Of an image that is very long only the middle is used.
        height, width = (min(side, 32 * min(shape)) for side in shape)
        assert result.shape[0] / result.shape[1] == pytest.approx(height / width, rel=1.5 / min(size))
    else:
        assert result.shape == (*size, 3) and result.min() >= -1e-3 and result.max() <= 1 + 1e-3


@pytest.mark.parametrize("step", [*SIZED, "resize_short"])
def test_a_square_is_the_same_bits_by_one_number_and_by_two(step):
    image = gradient_image(30, 21)
    for seed in range(4):
        one, two = (apply(step, image, (seed, 0), size=size) for size in (12, (12, 12)))
        np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize(
    "shape, expected", [((40, 20), (32, 16)), ((20, 40), (16, 32)), ((5, 9), (16, 29)), ((16, 16), (16, 16))]
)
def test_resize_short_keeps_the_aspect(shape, expected):
    result = apply("resize_short", gradient_image(*shape), size=16)
    assert result.shape == (*expected, 3)
    np.testing.assert_allclose(result[4:-4, 4:-4], gradient_image(*expected)[4:-4, 4:-4], atol=0.03)


def test_resize_pad_keeps_the_aspect_and_fills():
    for fill in (0, 128):
        result = apply(f"resize_pad(fill={fill})", np.full((40, 20, 3), 50.0), size=16)
        np.testing.assert_allclose(result[:, 4:12], 50, atol=1e-3)
        np.testing.assert_array_equal(result[:, :4], np.full((16, 4, 3), fill))
        np.testing.assert_array_equal(result[:, 12:], np.full((16, 4, 3), fill))
    wide = apply("resize_pad(fill=7)", np.full((20, 40, 3), 50.0), size=16)
    np.testing.assert_array_equal(wide[:4], np.full((4, 16, 3), 7))
    np.testing.assert_allclose(wide[4:12], 50, atol=1e-3)


def test_resize_pad_fits_into_height_and_width():
    tall = apply("resize_pad(fill=7)", np.full((40, 10, 3), 50.0), size=(16, 8))
    np.testing.assert_allclose(tall[:, 2:6], 50, atol=1e-3)
    np.testing.assert_array_equal(tall[:, [0, 1, 6, 7]], np.full((16, 4, 3), 7))
    wide = apply("resize_pad(fill=7)", np.full((10, 10, 3), 50.0), size=(16, 8))
    np.testing.assert_allclose(wide[4:12], 50, atol=1e-3)
    np.testing.assert_array_equal(wide[[0, 1, 2, 3, 12, 13, 14, 15]], np.full((8, 8, 3), 7))


def test_warp_stretches():
    np.testing.assert_allclose(
        apply("warp", gradient_image(32, 64), size=16)[2:-2, 2:-2], gradient_image(16, 16)[2:-2, 2:-2], atol=0.02
    )


def test_center_crop_takes_the_middle_and_pads_what_is_small():
    image = np.arange(6 * 8 * 3, dtype=np.float32).reshape(6, 8, 3)
    np.testing.assert_array_equal(apply("center_crop", image, size=4), image[1:5, 2:6])
    padded = apply("center_crop", image + 1, size=10)
    np.testing.assert_array_equal(padded[2:8, 1:9], image + 1)
    assert np.sum(padded != 0) == image.size


def test_random_crop_takes_every_window_and_pads_what_is_small():
    image = np.arange(6 * 5 * 3, dtype=np.float32).reshape(6, 5, 3) + 1
    windows = {(top, left): image[top : top + 4, left : left + 4] for top in range(3) for left in range(2)}
    found = [apply("random_crop", image, (seed, 1), size=4) for seed in range(60)]
    seen = [place for crop in found for place, window in windows.items() if np.array_equal(crop, window)]
    assert len(seen) == len(found) and set(seen) == set(windows)
    padded = apply("random_crop", image, size=9)
    np.testing.assert_array_equal(padded[1:7, 2:7], image)


def test_random_crop_pads_before():
    image = np.arange(4 * 4 * 3, dtype=np.float32).reshape(4, 4, 3) + 1
    framed = np.pad(image, [(2, 2), (2, 2), (0, 0)])
    windows = [framed[top : top + 4, left : left + 4].tobytes() for top in range(5) for left in range(5)]
    found = {apply("random_crop(padding=2)", image, (seed, 1), size=4).tobytes() for seed in range(300)}
    assert found == set(windows)


def test_crops_have_about_the_aspect_of_the_result():
    """By default nothing is stretched by more than a third, as in squares; a given aspect is that of the crop."""

    def aspects(spec):
        step = tf.function(registry.create("transform", spec, size=(32, 16)))
        image = tf.constant(gradient_image(100, 100))
        for seed in range(60):
            crop = step(image, tf.constant([seed, 5], tf.int64)).numpy()
            rows, columns = crop[4:28, 8, 0], crop[16, 2:14, 1]
            yield (columns[-1] - columns[0]) * 16 / 11 / ((rows[-1] - rows[0]) * 32 / 23)

    own = list(aspects("random_resized_crop(area=(0.2, 0.4))"))
    assert 0.36 < min(own) < 0.42 and 0.6 < max(own) < 0.69
    given = list(aspects("random_resized_crop(area=(0.2, 0.4), aspect=(1.0, 2.0))"))
    assert 0.97 < min(given) < 1.1 and 1.8 < max(given) < 2.07


def test_random_resized_crop_covers_the_areas_and_aspects_it_declares():
    height, width, area, aspect = 200, 160, (0.2, 0.6), (0.5, 2.0)
    step = tf.function(registry.create("transform", f"random_resized_crop(area={area}, aspect={aspect})", size=32))
    image = tf.constant(gradient_image(height, width))
    areas, aspects, tops, lefts, bottoms, rights = [], [], [], [], [], []
    for seed in range(250):
        crop = step(image, tf.constant([seed, 5], tf.int64)).numpy()
        # Rows and columns are colours, so a crop tells from where it is.
        rows, columns = crop[4:28, 16, 0], crop[16, 4:28, 1]
        share_high, share_wide = (rows[-1] - rows[0]) * 32 / 23, (columns[-1] - columns[0]) * 32 / 23
        areas.append(share_high * share_wide)
        aspects.append(share_wide * width / (share_high * height))
        tops.append(rows.mean() - share_high / 2)
        lefts.append(columns.mean() - share_wide / 2)
        bottoms.append(tops[-1] + share_high)
        rights.append(lefts[-1] + share_wide)
    assert min(tops) > -0.01 and min(lefts) > -0.01 and max(bottoms) < 1.01 and max(rights) < 1.01
    assert area[0] - 0.02 < min(areas) < 0.24 and 0.55 < max(areas) < area[1] + 0.02
    assert aspect[0] - 0.03 < min(aspects) < 0.58 and 1.7 < max(aspects) < aspect[1] + 0.06
    # As often wide as high: the aspect is drawn on a logarithmic scale.
    assert 0.4 < np.mean(np.array(aspects) > 1) < 0.6
    # Crops reach all four edges.
    assert min(tops) < 0.02 and min(lefts) < 0.02 and max(bottoms) > 0.98 and max(rights) > 0.98


def test_random_resized_crop_takes_the_whole_image_where_no_crop_fits():
    image = gradient_image(2, 400)
    result = apply("random_resized_crop(area=(0.9, 1.0))", image, size=8)
    np.testing.assert_allclose(result, apply("warp", image, size=8), atol=1e-5)


def test_flip_mirrors_half_of_the_images():
    image = COLOURS.astype(np.float32)
    results = [apply("flip", image, (seed, 0)) for seed in range(200)]
    mirrored = [np.array_equal(result, image[:, ::-1]) for result in results]
    assert all(flipped or np.array_equal(result, image) for flipped, result in zip(mirrored, results, strict=True))
    assert 75 < sum(mirrored) < 125


@pytest.mark.parametrize("step", ["random_resized_crop", "random_crop"])
def test_random_steps_depend_on_the_seed_alone(step):
    image = np.random.default_rng(0).random((30, 40, 3))
    seeds = [(first, second) for first in range(4) for second in range(4)]
    results = [apply(step, image, seed, size=12) for seed in seeds]
    for seed, result in zip(seeds, results, strict=True):
        np.testing.assert_array_equal(apply(step, image, seed, size=12), result)
    # Two of them may agree by chance.
    assert len({result.tobytes() for result in results}) > 12


def test_steps_of_a_chain_do_not_share_their_randomness():
    preprocess = Preprocessor("flip|flip|warp", image_size=13, mean=(0, 0, 0), std=(1, 1, 1))
    contents = tf.constant(encoded(COLOURS, "PNG"))
    straight = Preprocessor("warp", image_size=13, mean=(0, 0, 0), std=(1, 1, 1))(contents, tf.zeros([2], tf.int64))
    same = [np.array_equal(preprocess(contents, tf.constant([0, seed], tf.int64)), straight) for seed in range(30)]
    assert 0 < sum(same) < 30


def test_preprocessor_offers_its_size_to_steps_that_do_not_set_their_own():
    preprocess = Preprocessor("resize_short(size=20)|center_crop", image_size=8, mean=(0, 0, 0), std=(1, 1, 1))
    contents = tf.constant(encoded((255 * gradient_image(40, 40)).astype(np.uint8), "PNG"))
    image = preprocess(contents, tf.zeros([2], tf.int64)).numpy() / 255
    np.testing.assert_allclose(image, gradient_image(20, 20)[6:14, 6:14], atol=0.02)


@pytest.mark.parametrize("in_graph", [False, True])
@pytest.mark.parametrize(
    "transform, shape", [("resize_short", None), ("center_crop|warp(size=9)", r"\(9, 9, 3\)"), ("flip", None)]
)
def test_a_chain_that_ends_in_the_wrong_shape_is_told(transform, shape, in_graph):
    preprocess = Preprocessor(transform, image_size=8, mean=(0, 0, 0), std=(1, 1, 1))
    contents = tf.constant([encoded(COLOURS, "PNG")])
    message = (
        f"must produce images of shape \\(8, 8, 3\\). Received: shape {shape or ''}.*End it with a crop or with warp"
    )
    with pytest.raises(ValueError, match=message):
        if in_graph:
            tf.data.Dataset.from_tensor_slices(contents).map(lambda image: preprocess(image, tf.zeros([2], tf.int64)))
        else:
            preprocess(contents[0], tf.zeros([2], tf.int64))


TALL = (32, 16)


@pytest.mark.parametrize(
    "transform, size, shape, expected",
    [
        ("warp", 32, (20, 50), (0, 0, 1, 1)),
        ("resize_short|center_crop", 32, (40, 80), (0.25, 0, 0.75, 1)),
        ("resize_short(size=64)|center_crop", 32, (90, 60), (0.25, 1 / 3, 0.75, 2 / 3)),
        ("resize_pad(fill=255)", 32, (40, 80), (0, -0.5, 1, 1.5)),
        ("center_crop", 32, (8, 64), (0.25, -1.5, 0.75, 2.5)),
        ("resize_short|random_crop", 32, (40, 80), None),
        ("trim_border|warp", 32, (40, 80), None),
        ("warp", TALL, (40, 40), (0, 0, 1, 1)),
        ("resize_short|center_crop", TALL, (40, 40), (0.25, 0, 0.75, 1)),
        ("resize_short(size=(64, 32))|center_crop", TALL, (40, 40), (0.375, 0.25, 0.625, 0.75)),
        ("resize_pad", TALL, (40, 40), (0, -0.5, 1, 1.5)),
    ],
)
def test_which_part_of_an_image_is_seen(transform, size, shape, expected):
    found = Preprocessor(transform, image_size=size, mean=(0, 0, 0), std=(1, 1, 1)).seen_part(*shape)
    assert found == (expected and pytest.approx(expected, abs=0.01))


@pytest.mark.parametrize("kind", ["bilinear", "bicubic"])
@pytest.mark.parametrize("side", [24, 90])
def test_images_are_resized_as_pillow_does(kind, side):
    """A preset that was pretrained with bicubic pixels gets them, also where the crop is computed alone."""
    # Nowhere black or white, because Pillow cuts pixels off after each axis.
    image = Image.fromarray(np.random.default_rng(0).integers(80, 176, (50, 80, 3)).astype(np.uint8))
    options = {"image_size": side, "mean": (0, 0, 0), "std": (1, 1, 1), "interpolation": kind}
    prepare = Preprocessor("resize_short|center_crop", **options)
    resized = image.resize((round(side * 80 / 50), side), Image.Resampling[kind.upper()])
    left = (resized.width - side) // 2
    expected = np.asarray(resized.crop((left, 0, left + side, side)), np.float32)
    found = prepare(tf.constant(encoded(np.asarray(image), "PNG")), tf.zeros([2], tf.int64)).numpy()
    # It rounds there, too.
    np.testing.assert_allclose(found, expected, atol=2)
    assert prepare.name.endswith("bicubic") == (kind == "bicubic")
    assert prepare.seen_part(40, 80) == pytest.approx((0.25, 0, 0.75, 1), abs=0.02)


def test_channels_and_shapes_of_height_and_width():
    file = tf.constant(encoded((255 * gradient_image(60, 40)).astype(np.uint8), "JPEG", quality=95))
    mean, std = (104.0, 117.0, 123.0), (1.0, 2.0, 3.0)
    options = {"image_size": (24, 12), "mean": mean, "std": std, "channels": "bgr"}
    prepare, plain = (
        Preprocessor("warp", **{**options, **changed})
        for changed in ({}, {"mean": (0, 0, 0), "std": (1, 1, 1), "channels": "rgb"})
    )
    seed = tf.zeros([2], tf.int64)
    expected = (plain(file, seed).numpy()[..., ::-1] - np.float32(mean)) / np.float32(std)
    assert prepare.image_shape == expected.shape == (24, 12, 3) and prepare.name == "warp 24x12 False"
    np.testing.assert_allclose(prepare(file, seed), expected, rtol=1e-6)
    smaller = Preprocessor("warp", shrink=True, **options)
    np.testing.assert_allclose(smaller(file, seed) * std, expected * std, atol=12)
    with pytest.raises(ValueError, match=r"images of shape \(24, 12, 3\). Received: shape \(12, 24, 3\)"):
        Preprocessor("warp(size=(12, 24))", **options)(file, seed)
