"""The NumPy operations that compute batches without TensorFlow, against TensorFlow's."""

import numpy as np
import pytest
import tensorflow as tf

from pipelines import numpy_operations

SEEDS = [[0, 0], [5, 7], [-3, 2**40 + 1], [123456789, -42]]
RNG = np.random.default_rng(0)
IMAGE = RNG.uniform(0, 255, (9, 7, 3)).astype(np.float32)
TABLE = RNG.integers(0, 9, (4, 6))
CASES = {
    "argsort": lambda ops: ops.argsort(ops.constant(TABLE), axis=1),
    "bincount": lambda ops: ops.math.bincount(ops.reshape(ops.constant(TABLE), [-1]), minlength=10, maxlength=10),
    "bitcast": lambda ops: ops.bitcast(ops.constant([2**63 + 5, 3], ops.uint64), ops.int64),
    "cast": lambda ops: ops.cast(ops.constant([-1.7, 2.5]), ops.int32),
    "concat": lambda ops: ops.concat([[0], ops.constant([2, 3])], axis=0),
    "constant": lambda ops: ops.constant([1, 2]),
    "constant of floats": lambda ops: ops.constant([1.5, 2]),
    "cumsum": lambda ops: ops.cumsum(ops.constant(TABLE), axis=1, exclusive=True),
    "fill": lambda ops: ops.fill([2, 3], ops.constant(7, ops.int64)),
    "floor of a negative quotient": lambda ops: ops.constant([-7, 7]) // 2,
    "gather": lambda ops: ops.gather(ops.constant(TABLE), ops.constant([[2, 0]])),
    "gather of batches": lambda ops: ops.gather(ops.constant(TABLE), ops.constant(TABLE[:, :2] % 6), batch_dims=1),
    "gather_nd": lambda ops: ops.gather_nd(ops.constant(TABLE), ops.constant([[[1, 2], [3, 4]]])),
    "hue": lambda ops: ops.raw_ops.AdjustHue(images=IMAGE, delta=0.3),
    "hue of gray": lambda ops: ops.raw_ops.AdjustHue(images=np.full((2, 2, 3), 9, np.float32), delta=-0.4),
    "maximum of nothing": lambda ops: ops.reduce_max(ops.zeros([0], ops.int32)),
    "minimum of nothing": lambda ops: ops.reduce_min(ops.zeros([0], ops.int32)),
    "pad": lambda ops: ops.pad(IMAGE, [[1, 2], [0, 1], [0, 0]]),
    "range": lambda ops: ops.range(2, 6, dtype=ops.int64),
    "range without a type": lambda ops: ops.range(3),
    "remainder of a negative number": lambda ops: ops.constant([-7, 7]) % 4,
    "round": lambda ops: ops.round(ops.constant([0.5, 1.5, -2.5])),
    "set_diag": lambda ops: ops.linalg.set_diag(ops.zeros([2, 3, 3]), ops.constant(TABLE[:2, :3], ops.float32)),
    "shape": lambda ops: ops.shape(ops.constant(TABLE), ops.int64),
    "size": lambda ops: ops.size(ops.constant(TABLE), out_type=ops.int64),
    "where": lambda ops: ops.where(ops.constant([True, False, True])),
}


@pytest.mark.parametrize("name", CASES)
def test_operations_agree(name):
    expected, found = CASES[name](tf).numpy(), CASES[name](numpy_operations)
    assert (np.shape(found), np.asarray(found).dtype) == (expected.shape, expected.dtype)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("seed", SEEDS, ids=str)
@pytest.mark.parametrize("shape", [[], [2], [3, 7]], ids=str)
def test_random_numbers_are_those_of_tensorflow(seed, shape):
    for options in [(), (-1.5, 3.0), (30, 96, "int32")]:
        expected = tf.random.stateless_uniform(shape, tf.constant(seed, tf.int64), *options)
        found = numpy_operations.random.stateless_uniform(shape, seed, *options)
        assert found.dtype == expected.dtype and np.array_equal(found, expected)


@pytest.mark.parametrize("seed", SEEDS, ids=str)
@pytest.mark.parametrize("number", [0, 1, 1000])
def test_seeds_are_folded_like_those_of_tensorflow(seed, number):
    expected = tf.random.experimental.stateless_fold_in(tf.constant(seed, tf.int64), number)
    assert np.array_equal(numpy_operations.random.experimental.stateless_fold_in(seed, number), expected)


@pytest.mark.parametrize("mode", ["CONSTANT", "NEAREST", "REFLECT"])
def test_affine_transforms_agree(mode):
    transform = np.array([[0.9, -0.3, 1.2, 0.2, 1.1, -0.7, 0, 0]], np.float32)
    options = {"images": IMAGE[None], "transforms": transform, "output_shape": IMAGE.shape[:2], "fill_value": 7.0}
    options |= {"interpolation": "BILINEAR", "fill_mode": mode}
    expected = tf.raw_ops.ImageProjectiveTransformV3(**options)
    found = numpy_operations.raw_ops.ImageProjectiveTransformV3(**options)
    np.testing.assert_allclose(found, expected, atol=1e-2)


def test_an_unknown_operation_is_told():
    with pytest.raises(ValueError, match="works only on TensorFlow, because it uses tf.einsum.*the Keras backend"):
        _ = numpy_operations.einsum
