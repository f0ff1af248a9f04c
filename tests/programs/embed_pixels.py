"""Embeds pixels by a file for ONNX Runtime or LiteRT where TensorFlow cannot be imported.

`embed_pixels.py MODEL IMAGES.npy OUTPUT.npy`.
"""

import sys

import numpy as np


class Nowhere:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("tensorflow", "keras", "tfdml", "pipelines", "onnx", "tf2onnx"):
            raise ModuleNotFoundError(name)


sys.meta_path.insert(0, Nowhere())
model, images, output = sys.argv[1:]
if model.endswith(".onnx"):
    from onnxruntime import InferenceSession

    (found,) = InferenceSession(model).run(["embedding"], {"images": np.load(images)})
else:
    from ai_edge_litert.interpreter import Interpreter

    found = Interpreter(model).get_signature_runner("embed_images")(images=np.load(images))["embedding"]
np.save(output, found)
