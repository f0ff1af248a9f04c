"""Max pooling with a last window over the border, against loops."""

import keras
import numpy as np
import pytest

from tfdml.layers import CeilMaxPooling


def pooled_by_loops(image, size, stride):
    """Windows begin at 0, stride, 2 stride ... until every row and column is in one."""
    counts = [max(0, -((size - side) // stride)) + 1 for side in image.shape[:2]]
    result = np.zeros((*counts, image.shape[2]), image.dtype)
    for row in range(counts[0]):
        for column in range(counts[1]):
            window = image[row * stride : row * stride + size, column * stride : column * stride + size]
            result[row, column] = window.max(axis=(0, 1))
    return result


def features(height, width):
    return np.random.default_rng([height, width]).random((2, height, width, 3)).astype(np.float32)


@pytest.mark.parametrize("size, stride", [(3, 2), (2, 2), (3, 3), (3, 1)])
@pytest.mark.parametrize("height, width", [(8, 8), (9, 9), (8, 9), (7, 10), (3, 3)])
def test_loops_agree(size, stride, height, width):
    images = features(height, width)
    layer = CeilMaxPooling(size, stride)
    expected = np.stack([pooled_by_loops(image, size, stride) for image in images])
    np.testing.assert_array_equal(layer(images), expected)
    assert layer.compute_output_shape(images.shape) == expected.shape


def test_sizes_need_not_be_known_before():
    inputs = keras.Input((None, None, 3))
    model = keras.Model(inputs, CeilMaxPooling(3, 2)(inputs))
    assert model.output.shape == (None, None, None, 3)
    predicted = model.predict(features(8, 9), verbose=0)
    np.testing.assert_array_equal(predicted, CeilMaxPooling(3, 2)(features(8, 9)))


def test_the_configuration_makes_the_layer_again():
    layer = CeilMaxPooling.from_config(CeilMaxPooling(3, 2, name="pool").get_config())
    assert (layer.pool_size, layer.strides, layer.name) == (3, 2, "pool")


@pytest.mark.parametrize("size, stride", [(2, 3), (3, 0)])
def test_windows_that_leave_something_out_are_refused(size, stride):
    with pytest.raises(ValueError, match=f"received (strides )?{stride}"):
        CeilMaxPooling(size, stride)
