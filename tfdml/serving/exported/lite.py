"""Exported models in the format of LiteRT, formerly TensorFlow Lite, for phones and small computers."""

from pathlib import Path

import tensorflow as tf

FILE = "model.tflite"
PRECISIONS = ("float32", "float16", "int8")


def write_lite(path, precision):
    """Writes `model.tflite` beside a SavedModel: its signature `embed_images`, which takes pixels, not files.

    Args:
        path: folder of the SavedModel.
        precision: of the weights. `float16` halves the file; `int8` quarters the weights and computes with them as
            integers where it can. Inputs and outputs stay float32.
    """
    converter = tf.lite.TFLiteConverter.from_saved_model(str(path), signature_keys=["embed_images"])
    if precision != "float32":
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    if precision == "float16":
        converter.target_spec.supported_types = [tf.float16]
    (Path(path) / FILE).write_bytes(converter.convert())
