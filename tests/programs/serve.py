"""Loads a SavedModel where tfdml cannot be imported and embeds image files: `serve.py MODEL OUTPUT FILE...`."""

import sys
from pathlib import Path

import numpy as np
import tensorflow as tf


class Nowhere:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("tfdml", "pipelines", "keras"):
            raise ModuleNotFoundError(name)


sys.meta_path.insert(0, Nowhere())
model, output, *files = sys.argv[1:]
serve = tf.saved_model.load(model).signatures["serving_default"]
contents = [Path(file).read_bytes() for file in files]
np.savez(
    output,
    embeddings=serve(image_bytes=tf.constant(contents))["embedding"],
    empty=serve(image_bytes=tf.constant([], tf.string))["embedding"],
)
