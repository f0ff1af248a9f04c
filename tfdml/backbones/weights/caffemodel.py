"""Caffe's weights, read as protocol buffers: the few fields that hold them."""

import functools

import numpy as np
from google.protobuf import descriptor_pb2, descriptor_pool, message, message_factory

from tfdml.files.checked import read_bytes

Field = descriptor_pb2.FieldDescriptorProto
# The messages of `caffe.proto`, and of their fields the number, name, type, and whether it is repeated.
MESSAGES = {
    "BlobShape": [(1, "dim", Field.TYPE_INT64, True)],
    "BlobProto": [
        *(
            (number, name, Field.TYPE_INT32, False)
            for number, name in enumerate(("num", "channels", "height", "width"), 1)
        ),
        (5, "data", Field.TYPE_FLOAT, True),
        (7, "shape", "BlobShape", False),
    ],
    "LayerParameter": [(1, "name", Field.TYPE_STRING, False), (7, "blobs", "BlobProto", True)],
    # Of Caffe until 2014.
    "V1LayerParameter": [(4, "name", Field.TYPE_STRING, False), (6, "blobs", "BlobProto", True)],
    "NetParameter": [(2, "layers", "V1LayerParameter", True), (100, "layer", "LayerParameter", True)],
}
ROLES = ("weight", "bias")


def read_caffemodel(path):
    """Returns name to float32 array: `inception_3a/1x1.weight`, `inception_3a/1x1.bias`, and so on."""
    net = _net_class()()
    try:
        net.ParseFromString(read_bytes(path))
        arrays = {
            f"{layer.name}.{ROLES[number] if number < len(ROLES) else number}": _array(blob)
            for layer in (*net.layers, *net.layer)
            for number, blob in enumerate(layer.blobs)
        }
    except (ValueError, message.DecodeError) as error:
        raise ValueError(f"{path} is damaged, or not a caffemodel: {error}") from error
    if not arrays:
        raise ValueError(f"{path} is not a caffemodel, or has no weights.")
    return arrays


def _array(blob):
    values = np.array(blob.data, np.float32)
    if blob.HasField("shape"):
        return values.reshape(blob.shape.dim)
    shape = [getattr(blob, name) if blob.HasField(name) else 1 for name in ("num", "channels", "height", "width")]
    while len(shape) > 1 and shape[0] == 1:
        # Of a bias only the last is its length.
        shape.pop(0)
    return values.reshape(shape)


@functools.cache
def _net_class():
    file = descriptor_pb2.FileDescriptorProto(name="tfdml/caffe.proto", package="tfdml", syntax="proto2")
    for name, fields in MESSAGES.items():
        described = file.message_type.add(name=name)
        for number, field, kind, repeated in fields:
            about = (
                {"type": kind} if isinstance(kind, int) else {"type": Field.TYPE_MESSAGE, "type_name": f".tfdml.{kind}"}
            )
            label = Field.LABEL_REPEATED if repeated else Field.LABEL_OPTIONAL
            described.field.add(number=number, name=field, label=label, **about)
    # A pool of its own: Caffe's own module may have registered messages of these names.
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("tfdml.NetParameter"))
