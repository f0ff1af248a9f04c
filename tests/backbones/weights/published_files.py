"""Files as others publish weights, written from the descriptions of their formats."""

import json
import struct

import numpy as np

# Of Caffe's GoogLeNet, as models/bvlc_googlenet/deploy.prototxt defines it: inputs of a block, and num_output of its
# convolutions.
CAFFE_BLOCKS = {
    "3a": (192, [64, 96, 128, 16, 32, 32]),
    "3b": (256, [128, 128, 192, 32, 96, 64]),
    "4a": (480, [192, 96, 208, 16, 48, 64]),
    "4b": (512, [160, 112, 224, 24, 64, 64]),
    "4c": (512, [128, 128, 256, 24, 64, 64]),
    "4d": (512, [112, 144, 288, 32, 64, 64]),
    "4e": (528, [256, 160, 320, 32, 128, 128]),
    "5a": (832, [256, 160, 320, 32, 128, 128]),
    "5b": (832, [384, 192, 384, 48, 128, 128]),
}


def caffe_shapes():
    """Layer: shape of its weights, as Caffe keeps them; biases are as long as the first number says."""
    shapes = {"conv1/7x7_s2": (64, 3, 7, 7), "conv2/3x3_reduce": (64, 64, 1, 1), "conv2/3x3": (192, 64, 3, 3)}
    for block, (inputs, (one, reduce3, three, reduce5, five, projection)) in CAFFE_BLOCKS.items():
        shapes |= {
            f"inception_{block}/1x1": (one, inputs, 1, 1),
            f"inception_{block}/3x3_reduce": (reduce3, inputs, 1, 1),
            f"inception_{block}/3x3": (three, reduce3, 3, 3),
            f"inception_{block}/5x5_reduce": (reduce5, inputs, 1, 1),
            f"inception_{block}/5x5": (five, reduce5, 5, 5),
            f"inception_{block}/pool_proj": (projection, inputs, 1, 1),
        }
    return {**shapes, "loss3/classifier": (1000, 1024)}


def caffe_tensors(seed=0):
    random = np.random.default_rng(seed)
    return {
        name: [random.normal(size=shape).astype(np.float32), random.normal(size=shape[0]).astype(np.float32)]
        for name, shape in caffe_shapes().items()
    }


def varint(number):
    groups = []
    while number > 0x7F:
        groups.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*groups, number])


def counted(field, content):
    return varint(field << 3 | 2) + varint(len(content)) + content


def integer(field, number):
    return varint(field << 3) + varint(number)


def blob(array, old):
    data = counted(5, array.astype("<f4").tobytes())
    if not old:
        return counted(7, counted(1, b"".join(map(varint, array.shape)))) + data
    shape = (1,) * (4 - array.ndim) + array.shape
    return b"".join(integer(field, size) for field, size in zip((1, 2, 3, 4), shape, strict=True)) + data


def caffemodel(tensors, old=False):
    """The bytes of a NetParameter; the older one keeps shapes as four numbers, and layers in another field.

    Args:
        tensors: layer to list of arrays.
        old: whether to write as Caffe did until 2014.
    """
    net = counted(1, b"GoogleNet")
    for name, arrays in tensors.items():
        blobs = b"".join(counted(6 if old else 7, blob(array, old)) for array in arrays)
        if old:
            # Type is a number there, and two floats are its learning rates.
            rates = b"".join(varint(7 << 3 | 5) + struct.pack("<f", rate) for rate in (1.0, 2.0))
            net += counted(2, counted(4, name.encode()) + integer(5, 4) + blobs + rates)
        else:
            net += counted(100, counted(1, name.encode()) + counted(2, b"Convolution") + blobs)
    return net


def safetensors(tensors):
    """The bytes of a safetensors file of `{name: (type, array)}`."""
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, (kind, array) in tensors.items():
        content = array.tobytes()
        header[name] = {"dtype": kind, "shape": array.shape, "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data
