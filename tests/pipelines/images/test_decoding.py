"""Of a JPEG only a window is decoded: its pixels are those of the whole image; resizing is TensorFlow's."""

import io

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image, ImageOps

from pipelines.images import decoding, pillow
from pipelines.images.decoding import decode, decode_cut
from pipelines.images.resizing import Cut, resize
from tests.pipelines.image_files import encoded, gradient, moving, noise, with_orientation
from tfdml import registry

SUBSAMPLINGS = {"4:4:4": 0, "4:2:2": 1, "4:2:0": 2}
SEED = tf.constant([3, 4], tf.int64)
CUTS = ["random_resized_crop", "random_crop", "center_crop", "resize_short", "resize_pad", "warp"]


def cut_of(*window):
    return Cut(lambda height, width, seed: tuple(tf.constant(float(value)) for value in window))


def windows(height, width, count=12):
    """Windows at random, and those at the edges."""
    rng = np.random.default_rng(height * width)
    for _ in range(count):
        top, left = rng.integers(height), rng.integers(width)
        yield top, left, rng.integers(1, height - top + 1), rng.integers(1, width - left + 1)
    yield from [(0, 0, height, width), (0, 0, 1, 1), (height - 1, width - 1, 1, 1)]


@pytest.mark.parametrize("progressive", [False, True])
@pytest.mark.parametrize("subsampling", SUBSAMPLINGS.values(), ids=SUBSAMPLINGS)
@pytest.mark.parametrize("shape", [(64, 48), (65, 47), (17, 33), (7, 5), (1, 1)])
@pytest.mark.few_by_day(8)
def test_a_window_has_the_pixels_of_the_whole(shape, subsampling, progressive):
    file = tf.constant(encoded(noise(*shape), "JPEG", subsampling=subsampling, progressive=progressive))
    whole = decode(file).numpy()
    assert whole.shape == (*shape, 3)
    for top, left, height, width in windows(*shape):
        found = decode_cut(file, cut_of(top, left, height, width), SEED)
        np.testing.assert_array_equal(found, whole[top : top + height, left : left + width])


@pytest.mark.parametrize("mode", ["L", "CMYK"])
def test_a_window_of_other_colours(mode):
    file = tf.constant(encoded(noise(40, 30), "JPEG", mode))
    np.testing.assert_array_equal(decode_cut(file, cut_of(3, 5, 20, 11), SEED), decode(file)[3:23, 5:16])


@pytest.mark.parametrize("spec", CUTS)
@pytest.mark.parametrize(
    "shape, size", [((60, 90), 20), ((60, 90), (28, 14)), ((13, 40), (28, 14)), ((20, 20), 20), ((700, 3), 20)]
)
@pytest.mark.few_by_day(8)
def test_steps_give_what_they_give_after_decoding(spec, shape, size):
    step = registry.create("transform", spec, size=size)
    for name, file in (("jpeg", encoded(noise(*shape), "JPEG")), ("png", encoded(noise(*shape), "PNG"))):
        contents = tf.constant(file)
        for number in range(3):
            seed = tf.constant([number, 1], tf.int64)
            expected = step(tf.cast(decode(contents), tf.float32), seed)
            np.testing.assert_array_equal(decode_cut(contents, step, seed), expected, err_msg=name)


@pytest.mark.parametrize("chain", ["resize_short(size=24)|center_crop", "warp(size=40)|center_crop"])
@pytest.mark.parametrize("shape", [(60, 90), (13, 40), (20, 20), (700, 3), (1, 1), (400, 500)])
@pytest.mark.parametrize("size", [20, (20, 10)])
@pytest.mark.few_by_day(6)
def test_two_steps_as_one_read_and_compute_less(chain, shape, size, monkeypatch):
    steps = registry.create_chain("transform", chain, size=size)
    contents = tf.constant(encoded(noise(*shape), "JPEG"))
    expected = steps[1](steps[0](tf.cast(decode(contents), tf.float32), SEED), SEED)
    read = []
    original = tf.io.decode_and_crop_jpeg

    def note(contents, window, **more):
        read.append(window.numpy()[2:])
        return original(contents, window, **more)

    monkeypatch.setattr(decoding.tf.io, "decode_and_crop_jpeg", note)
    found = decode_cut(contents, steps[0].then(steps[1]), SEED)
    np.testing.assert_allclose(found, expected, atol=0.01)
    assert np.prod(read) <= (0.85 if shape == (400, 500) else 1.0) * np.prod(shape)


def test_what_cannot_be_one_step_stays_two():
    crop = registry.create("transform", "center_crop", size=20)
    for first in ("resize_pad", "center_crop"):
        assert registry.create("transform", first, size=24).then(crop) is None
    for second in ("random_crop", "warp"):
        assert registry.create("transform", "warp", size=24).then(registry.create("transform", second, size=20)) is None


def test_less_is_decoded(monkeypatch):
    """The window alone is asked of the decoder."""
    asked = []
    original = tf.io.decode_and_crop_jpeg
    monkeypatch.setattr(decoding.tf.io, "decode_jpeg", None)
    monkeypatch.setattr(
        decoding.tf.io,
        "decode_and_crop_jpeg",
        lambda contents, window, **more: asked.append(window) or original(contents, window, **more),
    )
    decode_cut(tf.constant(encoded(noise(50, 60), "JPEG")), cut_of(5, 6, 7, 8), SEED)
    assert [window.numpy().tolist() for window in asked] == [[5, 6, 7, 8]]


@pytest.mark.parametrize("file_format", ["JPEG", "PNG"])
@pytest.mark.parametrize("box", [(10, 5, 40, 30), (-9, -9, 12, 500), (0, 0, 60, 50), (59, 49, 59, 49)])
@pytest.mark.few_by_day(3)
def test_a_box_is_cropped_to_first(file_format, box):
    file = tf.constant(encoded(noise(50, 60), file_format))
    left, top, right, bottom = (max(value, 0) for value in box)
    inside = decode(file).numpy()[top : max(bottom, top + 1), left : max(right, left + 1)]
    np.testing.assert_array_equal(decode(file, tf.constant(box)), inside)
    for spec in CUTS:
        step = registry.create("transform", spec, size=8)
        found = decode_cut(file, step, SEED, box=tf.constant(box))
        np.testing.assert_array_equal(found, step(tf.constant(inside, tf.float32), SEED), err_msg=spec)


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("big_endian", [True, False])
@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.few_by_day(8)
def test_images_are_turned_upright(orientation, big_endian, first):
    file = with_orientation(gradient(20, 31), orientation, big_endian, first)
    opened = Image.open(io.BytesIO(file))
    assert opened.getexif()[0x0112] == orientation
    upright = np.asarray(ImageOps.exif_transpose(opened)).astype(int)
    image = decode(tf.constant(file)).numpy()
    assert image.shape == upright.shape == ((20, 31, 3) if orientation < 5 else (31, 20, 3))
    np.testing.assert_allclose(image.astype(int), upright, atol=4)
    step = registry.create("transform", "random_crop", size=9)
    np.testing.assert_array_equal(decode_cut(tf.constant(file), step, SEED), step(tf.constant(image, tf.float32), SEED))


def test_a_box_is_of_the_image_as_it_is_stored():
    file = with_orientation(gradient(20, 31), 6)
    stored = decode(tf.constant(with_orientation(gradient(20, 31), 1))).numpy()
    image = decode(tf.constant(file), tf.constant([3, 2, 13, 9]))
    np.testing.assert_array_equal(image, np.rot90(stored[2:9, 3:13], -1))


@pytest.mark.parametrize("orientation", [0, 9, 65535])
def test_orientations_that_there_are_not_are_upright(orientation):
    assert decode(tf.constant(with_orientation(gradient(20, 31), orientation))).shape == (20, 31, 3)


def test_pillow_reads_gray_images_with_16_bits_as_tensorflow_does():
    file = io.BytesIO()
    Image.fromarray((100 * np.arange(640, dtype=np.uint16)).reshape(20, 32)).save(file, "PNG")
    np.testing.assert_array_equal(pillow.decoded(file.getvalue()), decode(tf.constant(file.getvalue())))


def test_pillow_turns_a_jpeg_with_several_pictures_upright():
    exif = Image.Exif()
    exif[0x0112] = 6
    file = moving("MPO", [gradient(20, 31), gradient(20, 31)], exif=exif, quality=95, subsampling=0)
    assert Image.open(io.BytesIO(file)).format == "MPO"
    found, expected = pillow.decoded(file), decode(tf.constant(file)).numpy()
    assert found.shape == (31, 20, 3)
    np.testing.assert_allclose(found.astype(int), expected, atol=4)


@pytest.mark.parametrize("place", [4, 8, 10, 12, 20])
@pytest.mark.parametrize("value", [b"\0\0", b"\xff\xff", b"\x7f\xff"])
def test_damaged_exif_data_harm_nothing(place, value):
    file = bytearray(with_orientation(gradient(20, 31), 6))
    start = file.index(b"Exif") + 6 + place
    file[start : start + 2] = value
    assert sorted(decode(tf.constant(bytes(file))).shape) == [3, 20, 31]


@pytest.mark.parametrize(
    "spec, shape, shrink",
    [("warp", (400, 500), 8), ("warp", (400, 170), 4), ("warp", (99, 500), 2), ("resize_short", (170, 400), 4)]
    + [("resize_pad", (96, 320), 8), ("warp", (79, 79), 1), ("center_crop", (400, 400), 1)],
)
def test_shrinking_decodes_as_small_as_possible(monkeypatch, spec, shape, shrink):
    asked = []
    original = tf.io.decode_and_crop_jpeg

    def note(contents, window, ratio, **more):
        asked.append(ratio)
        return original(contents, window, ratio=ratio, **more)

    monkeypatch.setattr(decoding.tf.io, "decode_and_crop_jpeg", note)
    step = registry.create("transform", spec, size=40)
    file = tf.constant(encoded(gradient(*shape), "JPEG", quality=95))
    result = decode_cut(file, step, SEED, shrink=True)
    assert asked == [shrink]
    exact = decode_cut(file, step, SEED)
    assert result.shape == exact.shape
    np.testing.assert_allclose(result, exact, atol=6)
    assert (shrink == 1) == np.array_equal(result, exact)


def test_shrinking_keeps_a_window_in_its_place():
    file = tf.constant(encoded(gradient(400, 500), "JPEG", quality=95))
    step = registry.create("transform", "random_resized_crop(area=(0.3, 0.6))", size=16)
    for number in range(8):
        seed = tf.constant([number, 1], tf.int64)
        np.testing.assert_allclose(decode_cut(file, step, seed, shrink=True), decode_cut(file, step, seed), atol=8)


SHAPES = [(250, 250), (37, 501), (224, 224), (3, 90), (1, 1)]


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("size", [(24, 24), (31, 60), (224, 7)])
def test_it_gives_the_bits_of_tensorflow(dtype, shape, size):
    image = np.random.default_rng(0).integers(0, 256, (*shape, 3)).astype(dtype)
    expected = tf.image.resize(image, size, antialias=True)
    result = resize(tf.constant(image), *size)
    assert result.dtype == tf.float32
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("size", [(24, 60), (300, 120)])
@pytest.mark.parametrize("interpolation", ["bicubic", "lanczos3", "lanczos5"])
def test_other_interpolations_are_those_of_tensorflow_within_the_range_of_pixels(interpolation, size):
    image = 255.0 * np.random.default_rng(0).integers(0, 2, (37, 101, 3))
    expected = tf.image.resize(image, size, method=interpolation, antialias=True).numpy()
    assert expected.min() < -1 and expected.max() > 256
    found = resize(tf.constant(image, tf.float32), *size, interpolation)
    np.testing.assert_allclose(found, np.clip(expected, 0, 255), atol=1e-2)


def test_sizes_may_be_tensors_and_known_ones_are_known():
    image = tf.zeros([9, 9, 3], tf.uint8)
    assert resize(image, tf.constant(4.0), tf.constant(5)).shape == (4, 5, 3)

    @tf.function(input_signature=[tf.TensorSpec([None, None, 3], tf.uint8)])
    def known(image):
        return resize(image, 4, 5)

    assert known.get_concrete_function().output_shapes == (4, 5, 3)
