"""Exported models in the format ONNX, for ONNX Runtime and other programs that read it."""

from pathlib import Path

import tensorflow as tf

FILE = "model.onnx"


def import_converter():
    """Returns the modules `onnx` and `tf2onnx`; an ImportError says how to install them."""
    try:
        import onnx
        import tf2onnx
    except ImportError as error:
        raise ImportError(f"Writing ONNX needs {error.name}: pip install 'tfdml[onnx]'.") from error
    return onnx, tf2onnx


def write_onnx(path):
    """Writes `model.onnx` beside a SavedModel: its signature `embed_images`, which takes pixels, not files.

    Args:
        path: folder of the SavedModel.
    """
    onnx, tf2onnx = import_converter()
    # Its functions live as long as the model does.
    model = tf.saved_model.load(str(path))
    embed = model.signatures["embed_images"]
    images = embed.structured_input_signature[1]["images"]
    call = tf.function(lambda images: embed(images=images), autograph=False)
    found, _ = tf2onnx.convert.from_function(call, [tf.TensorSpec(images.shape, images.dtype, name="images")])
    if len(found.graph.input) > 1:
        raise ValueError("The model cannot be written in ONNX, export it without: a weight of it stays an input.")
    try:
        # An operation that ONNX does not have is left as it is.
        onnx.checker.check_model(found)
    except onnx.checker.ValidationError as error:
        raise ValueError(f"The model cannot be written in ONNX, export it without: {error}") from error
    (Path(path) / FILE).write_bytes(found.SerializeToString())
