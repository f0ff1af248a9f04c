"""JPEG compression, beside Pillow's."""

import io

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from tests.pipelines.steps import IMAGE, apply


def by_pillow(image, quality):
    file = io.BytesIO()
    Image.fromarray(image.astype(np.uint8)).save(file, "JPEG", quality=quality)
    return np.asarray(Image.open(file), np.float32)


def by_tensorflow(quality):
    encoded = tf.io.encode_jpeg(IMAGE.astype(np.uint8), quality=quality)
    options = {"dct_method": "INTEGER_ACCURATE", "fancy_upscaling": False}
    return tf.io.decode_jpeg(encoded, **options).numpy()


@pytest.mark.parametrize("quality", [10, 60, 95])
def test_it_is_encoded_and_decoded_at_that_quality(quality):
    spec = f"jpeg(quality=({quality}, {quality}))"
    np.testing.assert_array_equal(apply(spec, IMAGE), by_tensorflow(quality))
    # Decoders upsample colour each in its own way, so without colours.
    grey = np.repeat(IMAGE[..., :1], 3, axis=2)
    np.testing.assert_allclose(apply(spec, grey), by_pillow(grey, quality), atol=2)


def test_quality_is_drawn_from_its_range_with_both_ends():
    known = {by_tensorflow(quality).tobytes(): quality for quality in range(40, 45)}
    found = [known[apply("jpeg(quality=(40, 44))", IMAGE, seed).astype(np.uint8).tobytes()] for seed in range(80)]
    assert set(found) == set(range(40, 45))
