import numpy as np
import pytest
import tensorflow as tf

from pipelines.images.resizing import resize

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
