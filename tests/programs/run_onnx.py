"""Embeds pixels by a file in ONNX where TensorFlow cannot be imported: `run_onnx.py MODEL IMAGES.npy OUTPUT.npy`."""

import sys


class Nowhere:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("tensorflow", "keras", "tfdml", "pipelines", "onnx", "tf2onnx"):
            raise ModuleNotFoundError(name)


sys.meta_path.insert(0, Nowhere())
import numpy as np  # noqa: E402
from onnxruntime import InferenceSession  # noqa: E402

model, images, output = sys.argv[1:]
np.save(output, InferenceSession(model).run(["embedding"], {"images": np.load(images)})[0])
