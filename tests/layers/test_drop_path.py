"""Drop path: whole branches, in training alone."""

import keras
import numpy as np
import pytest

from tfdml.layers import DropPath


def test_training_leaves_out_a_part_of_the_images():
    keras.utils.set_random_seed(0)
    layer, branch = DropPath(0.25), np.ones((2000, 3, 2), np.float32)
    values = np.asarray(layer(branch, training=True))
    np.testing.assert_array_equal(values, np.broadcast_to(values[:, :1, :1], values.shape))
    # Three standard deviations of a share of 2,000 draws.
    assert abs((values == 0).mean() - 0.25) < 0.03 and np.allclose(values[values != 0], 4 / 3)
    np.testing.assert_array_equal(layer(branch), branch)
    np.testing.assert_array_equal(DropPath(0.0)(branch, training=True), branch)
    assert DropPath.from_config(layer.get_config()).rate == 0.25


def test_a_rate_of_all_is_refused():
    with pytest.raises(ValueError, match="rate to be a number of 0 or more and below 1"):
        DropPath(1.0)
