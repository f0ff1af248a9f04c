"""Requests and answers of TensorFlow Serving over REST, as https://www.tensorflow.org/tfx/serving/api_rest says."""

import base64
import json

import tensorflow as tf

# From that page. Two requests with the same tensors, one in rows, one in columns.
IN_ROWS = """{"instances": [
    {"tag": "foo", "signal": [1, 2, 3, 4, 5], "sensor": [[1, 2], [3, 4]]},
    {"tag": "bar", "signal": [3, 4, 1, 2, 5], "sensor": [[4, 5], [6, 8]]}
]}"""
IN_COLUMNS = """{"inputs": {
    "tag": ["foo", "bar"],
    "signal": [[1, 2, 3, 4, 5], [3, 4, 1, 2, 5]],
    "sensor": [[[1, 2], [3, 4]], [[4, 5], [6, 8]]]
}}"""
# The request and the answer of its model that halves and adds three, and the contents of an image.
HALF_PLUS_THREE = '{"instances": [1.0,2.0,5.0]}', '{"predictions": [3.5, 4.0, 5.5]}'
IMAGE = {"b64": "aW1hZ2UgYnl0ZXM="}


def answer(model, request):
    """The body of the answer of a SavedModel to that of a request."""
    body = json.loads(request)
    signature = model.signatures[body.get("signature_name", "serving_default")]
    outputs = signature(**tensors(body, signature.structured_input_signature[1]))
    return json.dumps(in_columns(outputs) if "inputs" in body else in_rows(outputs))


def tensors(body, specs):
    """The tensors of a parsed request by name; `specs` has the `TensorSpec` of each input of its signature."""
    given = _with_bytes(body["inputs"] if "inputs" in body else body["instances"])
    if "instances" in body and isinstance(given[0], dict):
        given = {name: [row[name] for row in given] for name in given[0]}
    if not isinstance(given, dict):
        (name,) = specs
        given = {name: given}
    return {name: tf.constant(values, specs[name].dtype) for name, values in given.items()}


def in_rows(outputs):
    """Values alone if there is one output, else objects by name."""
    columns = {name: tensor.numpy().tolist() for name, tensor in outputs.items()}
    if len(columns) == 1:
        return {"predictions": next(iter(columns.values()))}
    return {"predictions": [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]}


def in_columns(outputs):
    """Values alone if there is one output, else one object."""
    columns = {name: tensor.numpy().tolist() for name, tensor in outputs.items()}
    return {"outputs": next(iter(columns.values())) if len(columns) == 1 else columns}


def _with_bytes(value):
    """The value with bytes in place of `{"b64": ...}`."""
    if isinstance(value, list):
        return [_with_bytes(each) for each in value]
    if not isinstance(value, dict):
        return value
    if set(value) == {"b64"}:
        return base64.b64decode(value["b64"])
    return {name: _with_bytes(each) for name, each in value.items()}
