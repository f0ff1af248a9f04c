"""Files that are no good images: right pixels or a clear error, wherever images are decoded."""

import importlib.util
import io
import re

import keras
import numpy as np
import pytest
import tensorflow as tf
from PIL import Image, PngImagePlugin

from pipelines.checks import as_decodable, converted_endings, wrong_header
from pipelines.images import decoding
from pipelines.images.decoding import converted, decode, read_image
from pipelines.preprocessor import Preprocessor
from tests.night import others_at_night
from tests.pipelines.image_files import claiming, encoded, gradient, moving, noise, with_orientation
from tfdml.console.startup import tensorflow_reason
from tfdml.serving import ExportedModel, export

SIDE = 16
PREPARE = Preprocessor("resize_short|center_crop", image_size=SIDE, mean=(0, 0, 0), std=(1, 1, 1))
SEED = tf.zeros([2], tf.int64)
NO_IMAGE = "not a JPEG, PNG or WebP image. Save it as JPEG or PNG"
TOO_MANY_PIXELS = "more than 100000000 pixels"
FRAMES = [np.full((40, 50, 3), value, np.uint8) for value in (10, 200, 90)]


def cut(file):
    return file[: len(file) * 2 // 3]


BAD = {
    "nothing": (b"", NO_IMAGE),
    "text": (b"this is a text, and long enough for a header", NO_IMAGE),
    "two bytes": (b"BM", ""),
    "start of a JPEG": (b"\xff\xd8\xff", ""),
    "truncated JPEG": (cut(encoded(noise(40, 30), "JPEG")), "Invalid JPEG data"),
    "truncated progressive JPEG": (cut(encoded(noise(90, 90), "JPEG", progressive=True)), "Invalid JPEG data"),
    "truncated PNG": (cut(encoded(noise(40, 30), "PNG")), "Invalid PNG data"),
    "truncated WebP": (cut(encoded(noise(40, 30), "WebP")), "Failed to decode WebP"),
    "TIFF": (encoded(noise(20, 30), "TIFF"), NO_IMAGE),
    "GIF": (encoded(noise(20, 30), "GIF"), NO_IMAGE),
    "BMP": (encoded(noise(20, 30), "BMP"), NO_IMAGE),
    "animated WebP": (moving("WebP", FRAMES), "animated WebP. Save one frame of it"),
    "JPEG bomb": (claiming("JPEG", 60000, 50000), f"{TOO_MANY_PIXELS}.*50000 60000"),
    "PNG bomb": (claiming("PNG", 60000, 50000), f"{TOO_MANY_PIXELS}.*50000 60000"),
    "WebP bomb": (claiming("WebP", 16000, 15000), f"{TOO_MANY_PIXELS}.*15000 16000"),
    "lossy WebP bomb": (claiming("lossy WebP", 16000, 15000), f"{TOO_MANY_PIXELS}.*15000 16000"),
    "extended WebP bomb": (claiming("extended WebP", 70000, 15000), f"{TOO_MANY_PIXELS}.*15000 70000"),
}


@pytest.mark.parametrize("file, reason", BAD.values(), ids=BAD)
def test_a_bad_file_is_an_error_that_says_why(file, reason):
    for attempt in (decode, lambda contents: PREPARE(contents, SEED)):
        with pytest.raises(tf.errors.OpError) as error:
            attempt(tf.constant(file))
        told = tensorflow_reason(error.value)
        assert told and re.search(reason, told), told
        assert "\n" not in told and "{{" not in told and "assertion" not in told


def test_too_many_bytes_are_refused(monkeypatch):
    file = tf.constant(encoded(noise(40, 30), "PNG"))
    monkeypatch.setattr(decoding, "MOST_BYTES", 1000)
    with pytest.raises(tf.errors.InvalidArgumentError) as error:
        decode(file)
    assert re.fullmatch(r"The file has more than 1000 bytes: +\d{4}", tensorflow_reason(error.value))


def test_as_many_pixels_as_are_allowed_are_decoded(monkeypatch):
    monkeypatch.setattr(decoding, "MOST_PIXELS", 40 * 30)
    assert decode(tf.constant(encoded(noise(40, 30), "JPEG"))).shape == (40, 30, 3)
    with pytest.raises(tf.errors.InvalidArgumentError, match="more than 1200 pixels"):
        decode(tf.constant(encoded(noise(40, 31), "JPEG")))


SIXTEEN_BITS = np.linspace(0, 65535, 600).reshape(20, 30).astype(np.uint16)
TRANSPARENT = np.concatenate([gradient(20, 30), np.zeros((20, 30, 1), np.uint8)], axis=2)
QUANTISED = Image.fromarray(gradient(20, 30)).quantize(16)
# Name: the file, the pixels, and by how much they may differ.
GOOD = {
    "grey JPEG": (
        encoded(gradient(20, 30), "JPEG", "L", quality=95),
        Image.fromarray(gradient(20, 30)).convert("L"),
        4,
    ),
    "CMYK JPEG": (encoded(gradient(20, 30), "JPEG", "CMYK", quality=100, subsampling=0), gradient(20, 30), 8),
    "16-bit PNG": (encoded(Image.fromarray(SIXTEEN_BITS), "PNG", "I;16"), (SIXTEEN_BITS >> 8).astype(np.uint8), 0),
    "palette PNG": (encoded(QUANTISED, "PNG", "P"), QUANTISED, 0),
    "transparent PNG": (encoded(TRANSPARENT, "PNG", "RGBA"), gradient(20, 30), 0),
    "transparent WebP": (encoded(TRANSPARENT, "WebP", "RGBA", lossless=True, exact=True), gradient(20, 30), 0),
    "animated PNG": (moving("PNG", FRAMES), FRAMES[0], 0),
    "lossy WebP": (encoded(gradient(20, 30), "WebP", quality=95), gradient(20, 30), 12),
    "extended WebP": (encoded(gradient(20, 30), "WebP", lossless=True, icc_profile=b"profile"), gradient(20, 30), 0),
    "one pixel": (encoded(np.full((1, 1, 3), 77), "JPEG", quality=95), np.full((1, 1, 3), 77), 3),
    "20,000 x 3": (encoded(np.full((20000, 3, 3), 77), "JPEG", quality=95), np.full((20000, 3, 3), 77), 3),
    "turned": (with_orientation(gradient(20, 30), 8), np.rot90(gradient(20, 30)), 4),
}


@pytest.mark.parametrize("file, pixels, tolerance", GOOD.values(), ids=GOOD)
def test_an_unusual_file_has_its_pixels(file, pixels, tolerance):
    image = decode(tf.constant(file))
    pixels = pixels.convert("RGB") if isinstance(pixels, Image.Image) else pixels
    expected = np.broadcast_to(np.asarray(pixels).reshape(*np.asarray(pixels).shape[:2], -1), image.shape)
    np.testing.assert_allclose(image.numpy().astype(int), expected.astype(int), atol=tolerance)


def heic(pixels, **options):
    pillow_heif = pytest.importorskip("pillow_heif")
    pillow_heif.register_heif_opener()
    return encoded(pixels, "HEIF", **options)


# Name: a function that makes the file, and by how much the pixels of `FRAMES[0]` may differ.
CONVERTED = {
    "animated WebP": (lambda: moving("WebP", FRAMES, lossless=True), 0),
    "AVIF": (lambda: encoded(FRAMES[0], "AVIF"), 4),
    "animated AVIF": (lambda: moving("AVIF", FRAMES), 4),
    "HEIC": (lambda: heic(FRAMES[0]), 4),
}


@pytest.mark.parametrize("make, tolerance", CONVERTED.values(), ids=CONVERTED)
def test_what_pillow_reads_for_tensorflow_has_its_first_picture(make, tolerance, tmp_path):
    file = make()
    assert wrong_header(io.BytesIO(file)) is None
    (tmp_path / "photo").write_bytes(file)
    paths = tf.data.Dataset.from_tensors(str(tmp_path / "photo"))
    (in_a_graph,) = paths.map(lambda path: decode(read_image(path)))
    for image in (in_a_graph, decode(converted(tf.constant(file)))):
        np.testing.assert_allclose(image.numpy().astype(int), FRAMES[0].astype(int), atol=tolerance)


def test_a_converted_photo_is_upright():
    exif = Image.Exif()
    exif[0x0112] = 6
    file = encoded(gradient(20, 30), "AVIF", quality=95, exif=exif)
    found = decode(tf.constant(as_decodable(file))).numpy().astype(int)
    np.testing.assert_allclose(found, np.rot90(gradient(20, 30), -1).astype(int), atol=16)


def test_other_files_are_not_converted():
    for file in [file for file, *_ in (*BAD.values(), *GOOD.values()) if file != BAD["animated WebP"][0]]:
        assert as_decodable(file) is file
        assert converted(tf.constant(file)).numpy() == file


def test_a_damaged_file_is_not_converted_and_decoding_says_so():
    for file in (encoded(noise(40, 30), "AVIF"), moving("WebP", FRAMES)):
        short = file[: len(file) // 3]
        assert as_decodable(short) == short
        with pytest.raises(tf.errors.OpError):
            decode(converted(tf.constant(short)))


def test_a_missing_package_is_named(monkeypatch):
    file = encoded(noise(40, 30), "AVIF")
    heif = file[:8] + b"heic" + file[12:]
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "pillow_heif" else found(name))
    assert ".avif" in converted_endings() and ".heic" not in converted_endings()
    assert "pip install 'tfdml[heic]' to read HEIF" in wrong_header(io.BytesIO(heif[:60]))


@pytest.mark.parametrize("chain", ["random_resized_crop", "random_crop", "center_crop", "resize_short|random_crop"])
@pytest.mark.parametrize("shape", [(1, 1), (20000, 3), (3, 20000)])
def test_extreme_shapes_come_to_a_square(shape, chain):
    preprocess = Preprocessor(chain, image_size=SIDE, mean=(0, 0, 0), std=(1, 1, 1))
    for file_format in ("JPEG", "PNG"):
        image = preprocess(tf.constant(encoded(np.full((*shape, 3), 77), file_format)), SEED).numpy()
        assert image.shape == (SIDE, SIDE, 3)
        # What is no padding is the picture.
        np.testing.assert_allclose(image[image > 0], 77, atol=3)
        assert np.any(image)


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A served model that gives the mean of each colour."""
    path = tmp_path_factory.mktemp("served")
    inputs = keras.Input((SIDE, SIDE, 3))
    export(keras.Model(inputs, keras.layers.GlobalAveragePooling2D()(inputs)), PREPARE, path)
    return tf.saved_model.load(str(path)).signatures["serving_default"]


def test_serving_decodes_as_evaluation_does(served):
    files = [file for file, _, _ in GOOD.values()]
    found = served(image_bytes=tf.constant(files))["embedding"]
    expected = [np.mean(PREPARE(tf.constant(file), SEED), axis=(0, 1)) for file in files]
    np.testing.assert_allclose(found, expected, atol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("file", [file for file, _ in BAD.values()], ids=BAD)
@pytest.mark.few_by_day(5)
def test_serving_refuses_a_bad_file_and_goes_on(served, file):
    good = encoded(gradient(20, 30), "PNG")
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"\[Image\] \[1\] \[of the batch cannot be read"):
        served(image_bytes=tf.constant([good, file]))
    assert np.all(np.isfinite(served(image_bytes=tf.constant([good]))["embedding"]))


@pytest.mark.slow
@pytest.mark.parametrize("name", others_at_night(CONVERTED, ["HEIC"]))
def test_an_exported_model_in_python_reads_what_is_converted(tmp_path, name):
    make, _ = CONVERTED[name]
    inputs = keras.Input((SIDE, SIDE, 3))
    export(keras.Model(inputs, keras.layers.GlobalAveragePooling2D()(inputs)), PREPARE, tmp_path / "model")
    model = ExportedModel(tmp_path / "model")
    embeddings, valid = model.embed_readable([make(), encoded(FRAMES[0], "PNG")])
    assert valid.all()
    np.testing.assert_allclose(embeddings[0], embeddings[1], atol=4)
    assert model.read(make()).shape == (SIDE, SIDE, 3)


@pytest.mark.parametrize("file_format", ["JPEG", "PNG", "WEBP"])
def test_headers_of_what_is_read_are_fine(file_format):
    assert wrong_header(io.BytesIO(encoded(noise(8, 8), file_format))) is None


def test_a_png_with_much_text_is_fine():
    about = PngImagePlugin.PngInfo()
    about.add_text("workflow", "x" * 2**21, zip=True)
    assert wrong_header(io.BytesIO(encoded(noise(8, 8), "PNG", pnginfo=about))) is None


@pytest.mark.parametrize(
    "content, message",
    [
        (encoded(noise(8, 8), "TIFF"), "is a TIFF file, which tfdml does not read"),
        (encoded(noise(8, 8), "PPM"), "is a PPM file, which tfdml does not read"),
        (encoded(noise(8, 8), "GIF"), "is a GIF file, which tfdml does not read; save it as JPEG or PNG"),
        (encoded(noise(8, 8), "BMP"), "is a BMP file, which tfdml does not read; save it as JPEG or PNG"),
        (b"P5 is out of stock, see the other page", "is not a readable image"),
        (b"P1 photographs", "is not a readable image"),
        (encoded(noise(8, 8), "PNG")[:20], "is not a readable image"),
        (b"", "is not a readable image"),
    ],
)
def test_what_is_not_read_is_told(content, message):
    told = wrong_header(io.BytesIO(content))
    assert message in told and "BytesIO" not in told


def test_too_many_pixels_are_told():
    assert "has 8 x 8 pixels, more than 63" in wrong_header(io.BytesIO(encoded(noise(8, 8), "PNG")), 63)
