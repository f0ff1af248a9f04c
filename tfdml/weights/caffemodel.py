"""Caffe's weights, read from the wire format of protocol buffers: the few fields that hold them."""

from pathlib import Path

import numpy as np

VARINT, EIGHT_BYTES, COUNTED, FOUR_BYTES = 0, 1, 2, 5
# NetParameter: field of the layers, and in a layer the fields of its name and blobs; newer Caffe and older.
LAYER_FIELDS = {100: {"name": 1, "blobs": 7}, 2: {"name": 4, "blobs": 6}}
# BlobProto: old shapes are four numbers, num to width.
OLD_SHAPE, DATA, SHAPE, DIM = (1, 2, 3, 4), 5, 7, 1
ROLES = ("weight", "bias")


def read_caffemodel(path):
    """Name to float32 array: `inception_3a/1x1.weight`, `inception_3a/1x1.bias`, and so on."""
    try:
        arrays = dict(_arrays(memoryview(Path(path).read_bytes())))
    except (ValueError, IndexError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is damaged, or no caffemodel: {error}") from error
    if not arrays:
        raise ValueError(f"{path} is no caffemodel, or holds no weights.")
    return arrays


def _arrays(net):
    for field, layer in _fields(net):
        if field not in LAYER_FIELDS or isinstance(layer, int):
            continue
        fields = LAYER_FIELDS[field]
        entries = list(_fields(layer))
        name = next((bytes(value).decode() for field, value in entries if field == fields["name"]), "")
        blobs = [value for field, value in entries if field == fields["blobs"]]
        for number, blob in enumerate(blobs):
            role = ROLES[number] if number < len(ROLES) else str(number)
            yield f"{name}.{role}", _array(blob)


def _array(blob):
    entries = list(_fields(blob))
    data = b"".join(bytes(value) for field, value in entries if field == DATA)
    values = np.frombuffer(data, "<f4")
    shapes = [value for field, value in entries if field == SHAPE]
    if shapes:
        return values.reshape(_dimensions(shapes[0]))
    old = dict(entries)
    shape = [old.get(field, 1) for field in OLD_SHAPE]
    while len(shape) > 1 and shape[0] == 1:
        # Of a bias only the last is its length.
        shape.pop(0)
    return values.reshape(shape)


def _dimensions(shape):
    """The numbers of a BlobShape, which may be packed or not."""
    numbers = []
    for field, value in _fields(shape):
        if field != DIM:
            continue
        if isinstance(value, int):
            numbers.append(value)
            continue
        place = 0
        while place < len(value):
            number, place = _varint(value, place)
            numbers.append(number)
    return numbers


def _fields(message):
    """`(number, value)` of each field: an integer, or the bytes of what has a length."""
    place = 0
    while place < len(message):
        key, place = _varint(message, place)
        kind = key & 7
        if kind == VARINT:
            value, place = _varint(message, place)
            yield key >> 3, value
            continue
        if kind == COUNTED:
            size, place = _varint(message, place)
        elif kind in (EIGHT_BYTES, FOUR_BYTES):
            size = 8 if kind == EIGHT_BYTES else 4
        else:
            raise ValueError(f"there is no field of type {kind}")
        if place + size > len(message):
            raise ValueError("it ends inside a field")
        yield key >> 3, message[place : place + size]
        place += size


def _varint(message, place):
    """An integer in groups of seven bits, and the place behind it."""
    value, shift = 0, 0
    while True:
        byte = message[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, place
        shift += 7
