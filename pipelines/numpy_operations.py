"""NumPy operations with the names of TensorFlow's, for batches that are computed without TensorFlow.

Samplers and transforms are written with TensorFlow's operations, so that `tf.data` runs them. Here are all operations
that they need. Results are equal, including random numbers, which are a function of the seed: integers bit for bit, and
floating-point numbers up to rounding.
"""

import contextlib
import io as io_of_python
from types import SimpleNamespace

import numpy as np

from pipelines.images.pillow import decoded
from tfdml.runtime.backends import backend_name, refuse_unless_tensorflow

int32, int64, uint8, uint64, float32, float64 = np.int32, np.int64, np.uint8, np.uint64, np.float32, np.float64
bool, string, Tensor = np.bool_, object, np.ndarray


def __getattr__(name):
    if name.startswith("__"):
        # Python itself asks modules for such names.
        raise AttributeError(name)
    raise ValueError(
        f"This step of the input pipeline works only on TensorFlow, because it uses tf.{name}. Received: the Keras "
        f"backend {backend_name()}. Use another transform, or set KERAS_BACKEND=tensorflow before Python starts."
    )


class Variable:
    """An array that can be replaced."""

    def __init__(self, value, **options):
        del options
        self._value = np.array(value)
        self.shape, self.dtype = self._value.shape, self._value.dtype

    def numpy(self):
        return self._value

    read_value = numpy

    def assign(self, value):
        self._value = np.array(value, self.dtype)


class TensorSpec:
    """What describes an argument of a `function`, which NumPy does not need."""

    def __init__(self, *arguments):
        del arguments


def function(call=None, **options):
    del options
    return call if call else lambda decorated: decorated


def executing_eagerly():
    return True


def device(name):
    del name
    return contextlib.nullcontext()


def constant(value, dtype=None):
    is_text = isinstance(value, list) and value and isinstance(value[0], str | bytes)
    return np.asarray(value, object if is_text else _dtype_of(value, dtype))[()]


def _dtype_of(value, dtype):
    """Returns the dtype of a constant, which is 32 bits for Python's numbers."""
    if dtype is not None or isinstance(value, np.ndarray | np.generic):
        return dtype
    return {np.dtype(float64): float32, np.dtype(int64): int32}.get(np.asarray(value).dtype)


convert_to_tensor = constant


def cast(value, dtype):
    return np.asarray(value).astype(dtype)[()]


def bitcast(value, dtype):
    return np.asarray(value).view(dtype)[()]


def identity(value):
    return value


def ensure_shape(value, shape):
    del shape
    return value


def is_tensor(value):
    """Returns False, because arrays have none of the methods of TensorFlow's tensors."""
    del value
    return False


def shape(value, out_type=int32):
    return np.array(np.shape(value), out_type)


def size(value, out_type=int32):
    return out_type(np.size(value))


def range(start, limit=None, dtype=None):
    limits = (0, start) if limit is None else (start, limit)
    if dtype is None:
        dtype = np.result_type(*limits) if any(isinstance(each, np.generic) for each in limits) else int32
    return np.arange(*limits).astype(dtype)


def fill(dims, value):
    return np.full(dims, value, _dtype_of(value, None))


def zeros(dims, dtype=float32):
    return np.zeros(dims, dtype)


def eye(rows):
    return np.eye(rows, dtype=float32)


def where(condition, *values):
    return np.where(condition, *values)[()] if values else np.argwhere(condition)


def gather(values, indices, axis=None, batch_dims=0):
    if batch_dims:
        shaped = np.reshape(indices, (len(indices), -1))
        return np.reshape(np.take_along_axis(values, shaped, axis=1), np.shape(indices))
    return np.take(values, indices, axis=axis or 0)


def gather_nd(values, indices):
    return values[tuple(np.moveaxis(indices, -1, 0))]


def argsort(values, axis=-1):
    return np.argsort(values, axis=axis, kind="stable").astype(int32)


def expand_dims(value, axis):
    return np.expand_dims(value, axis)


def concat(values, axis):
    return np.concatenate([np.asarray(each, _dtype_of(each, None)) for each in values], axis)


def stack(values, axis=0):
    return np.stack([np.asarray(each, _dtype_of(each, None)) for each in values], axis)


def unstack(value):
    return list(value)


def split(value, parts, axis=0):
    return np.split(value, parts, axis)


def repeat(value, repeats):
    return np.repeat(value, repeats)


def reverse(value, axis):
    return np.flip(value, axis)


def pad(value, margins):
    return np.pad(value, margins)


def clip_by_value(value, low, high):
    return np.clip(value, low, high)


def cumsum(value, axis=0, exclusive=False):
    return np.cumsum(value, axis, value.dtype) - (value if exclusive else 0)


def cond(condition, true, false):
    return true() if condition else false()


def switch_case(index, branches):
    return branches[index]()


def while_loop(condition, body, values):
    while condition(*values):
        values = body(*values)
    return values


def map_fn(call, elements, fn_output_signature=None):
    del fn_output_signature
    return np.stack([call(each) for each in zip(*elements, strict=True)])


def _reduced(reduce):
    return lambda value, axis=None: reduce(value, axis=tuple(axis) if isinstance(axis, list) else axis)


reduce_any, reduce_prod, reduce_sum, reduce_mean = map(_reduced, (np.any, np.prod, np.sum, np.mean))
maximum, minimum, sqrt, exp, sin, cos, floor = np.maximum, np.minimum, np.sqrt, np.exp, np.sin, np.cos, np.floor
round, square, zeros_like, ones_like, reshape = np.round, np.square, np.zeros_like, np.ones_like, np.reshape
matmul, transpose, tile, argmax, tensordot = np.matmul, np.transpose, np.tile, np.argmax, np.tensordot


def reduce_min(value, axis=None):
    """Returns the minimum, which is the largest integer without values."""
    return _reduced(np.min)(value, axis) if np.size(value) else value.dtype.type(np.iinfo(value.dtype).max)


def reduce_max(value, axis=None):
    """Returns the maximum, which is the smallest integer without values."""
    return _reduced(np.max)(value, axis) if np.size(value) else value.dtype.type(np.iinfo(value.dtype).min)


def _philox(counter, key, blocks):
    """Returns uint32 `[blocks, 4]`: the first outputs of Philox 4 x 32 with ten rounds from a counter `[4]`."""
    start = sum(int(word) << 32 * place for place, word in enumerate(counter))
    counters = [start + block for block in np.arange(blocks).tolist()]
    words = (np.array([each >> shift & 0xFFFFFFFF for each in counters], uint64) for shift in (0, 32, 64, 96))
    first, second, third, fourth = words
    low, high = (int(word) for word in key)
    for _ in np.arange(10):
        one, other = first * uint64(0xD2511F53), third * uint64(0xCD9E8D57)
        first, second = other >> uint64(32) ^ second ^ uint64(low), other & uint64(0xFFFFFFFF)
        third, fourth = one >> uint64(32) ^ fourth ^ uint64(high), one & uint64(0xFFFFFFFF)
        low, high = low + 0x9E3779B9 & 0xFFFFFFFF, high + 0xBB67AE85 & 0xFFFFFFFF
    return np.stack([first, second, third, fourth], axis=1).astype(np.uint32)


def _bits(seed, count):
    """Returns `count` random uint32 of a seed `[2]`, as TensorFlow draws them."""
    words = [int(each) >> shift & 0xFFFFFFFF for each in np.asarray(seed, int64) for shift in (0, 32)]
    mixed = _philox(words, (0x3EC8F720, 0x02461E29), 1)[0]
    return _philox((0, 0, *mixed[2:]), mixed[:2], -(-count // 4)).reshape(-1)[:count]


def _uniform(dims, seed, minval=0, maxval=None, dtype=float32):
    """Returns random numbers from `minval` to less than `maxval`, which is 1 by default, of a seed `[2]`."""
    count = int(np.prod(dims))
    if dtype == float32:
        drawn = (_bits(seed, count) & np.uint32(0x7FFFFF) | np.uint32(127 << 23)).view(float32) - float32(1)
        drawn = drawn if maxval is None else drawn * float32(maxval - minval) + float32(minval)
    else:
        drawn = (minval + _bits(seed, count).astype(int64) % (maxval - minval)).astype(dtype)
    return drawn.reshape(dims)[()]


def _fold_in(seed, number):
    """Returns a new seed `[2]` for each number."""
    return np.array([_bits(seed, 1).view(int32)[0], number], int32)


def _set_diag(matrices, value):
    changed = np.array(matrices)
    places = np.arange(changed.shape[-1])
    changed[..., places, places] = value
    return changed


def _bincount(values, minlength, maxlength):
    return np.bincount(values, minlength=minlength)[:maxlength].astype(int32)


def _assert(condition, data):
    if not np.all(condition):
        raise ValueError(" ".join(map(str, data)))


def _adjust_hue(images, delta):
    """Rotates hues by a fraction of the color circle, without changing the largest and smallest channel of a pixel."""
    most, least = images.max(axis=2), images.min(axis=2)
    spread = np.where(most > least, most - least, float32(1))
    red, green, blue = np.moveaxis(images, 2, 0)
    by_largest = [(green - blue) / spread, (blue - red) / spread + 2, (red - green) / spread + 4]
    hue = np.choose(images.argmax(axis=2), by_largest) + 6 * float32(delta)
    # Each channel is a trapezoid of the hue, from 0 to 6.
    shares = [np.clip(np.abs((hue + shift) % 6 - 3) - 1, 0, 1) for shift in (0, 4, 2)]
    turned = [least + share * (most - least) for share in shares]
    return np.where((most > least)[:, :, None], np.stack(turned, axis=2), images).astype(float32)


def _projective_transform(images, transforms, output_shape, fill_value, interpolation, fill_mode):
    """Applies an affine transform with linear interpolation to one image."""
    from scipy import ndimage

    del interpolation, output_shape
    modes = {"CONSTANT": "grid-constant", "NEAREST": "nearest", "REFLECT": "reflect"}
    if fill_mode not in modes:
        refuse_unless_tensorflow(f"fill_mode={fill_mode.lower()!r}", "Use another one")
    (across, (shift,), down, (fall,), _) = np.split(transforms[0], (2, 3, 5, 6))
    matrix, offset = np.array([down[::-1], across[::-1]]), (fall, shift)
    options = {"order": 1, "mode": modes[fill_mode], "cval": float(fill_value), "output": float32}
    channels = [ndimage.affine_transform(each, matrix, offset, **options) for each in np.moveaxis(images[0], 2, 0)]
    return np.stack(channels, axis=2)[None]


def _encode_jpeg(images, quality):
    from PIL import Image

    contents = io_of_python.BytesIO()
    Image.fromarray(images).save(contents, "JPEG", quality=int(quality))
    return contents.getvalue()


def _decode_jpeg(contents, **options):
    del options
    return decoded(contents)


def _depthwise_convolution(images, kernel, strides, padding):
    """Convolves `[1, H, 1, C]` along its rows with a kernel `[K, 1, C, 1]`."""
    del strides, padding
    height = images.shape[1] - len(kernel) + 1
    return sum(weights[:, :, 0] * images[:, first : first + height] for first, weights in enumerate(kernel))


bitwise = SimpleNamespace(right_shift=np.right_shift, bitwise_xor=np.bitwise_xor)
linalg = SimpleNamespace(set_diag=_set_diag, matvec=lambda matrix, vector: matrix @ vector)
math = SimpleNamespace(ceil=np.ceil, floormod=np.mod, bincount=_bincount)
random = SimpleNamespace(stateless_uniform=_uniform, experimental=SimpleNamespace(stateless_fold_in=_fold_in))
raw_ops = SimpleNamespace(
    AdjustHue=_adjust_hue,
    Assert=_assert,
    EncodeJpegVariableQuality=_encode_jpeg,
    ImageProjectiveTransformV3=_projective_transform,
)
io = SimpleNamespace(decode_jpeg=_decode_jpeg)
nn = SimpleNamespace(depthwise_conv2d=_depthwise_convolution)
autograph = SimpleNamespace(experimental=SimpleNamespace(do_not_convert=lambda call: call))
