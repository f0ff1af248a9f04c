import keras
import numpy as np
import pytest

from tfdml.layers import CeilAveragePooling


def naive(features, pool_size, strides):
    """Windows from the first row on until all rows are in one, averaged over what they have."""
    height, width = features.shape[1:3]
    rows, columns = (
        [start for start in range(0, size, strides) if start == 0 or start + pool_size - strides < size]
        for size in (height, width)
    )
    return np.stack(
        [
            np.stack([features[:, y : y + pool_size, x : x + pool_size].mean(axis=(1, 2)) for x in columns], axis=1)
            for y in rows
        ],
        axis=1,
    )


@pytest.mark.parametrize("size, windows", [((7, 7), (2, 2)), ((14, 14), (4, 4)), ((5, 9), (1, 3)), ((12, 6), (4, 2))])
def test_equal_to_loops(size, windows):
    features = np.random.default_rng(0).normal(size=(2, *size, 3)).astype("float32")
    layer = CeilAveragePooling(5, 3)
    pooled = layer(features)
    assert pooled.shape[1:3] == windows and layer.compute_output_shape(features.shape) == pooled.shape
    np.testing.assert_allclose(pooled, naive(features, 5, 3), rtol=1e-5, atol=1e-6)


def test_config_and_errors():
    layer = CeilAveragePooling(5, 3, dtype="mixed_bfloat16")
    again = CeilAveragePooling.from_config(layer.get_config())
    assert (again.pool_size, again.strides) == (5, 3)
    assert again(np.ones((1, 7, 7, 2))).dtype == "bfloat16"
    saved = keras.saving.serialize_keras_object(layer)
    assert isinstance(keras.saving.deserialize_keras_object(saved), CeilAveragePooling)
    with pytest.raises(ValueError, match="1 <= strides <= pool_size"):
        CeilAveragePooling(2, 3)
