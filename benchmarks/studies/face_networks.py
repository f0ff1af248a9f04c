"""The published networks that find the landmarks of a face and compute its embedding, from their weight files.

The files are from the npm package @vladmandic/face-api (MIT license): `face_landmark_68_model` and
`face_recognition_model`, each a manifest and a binary file with weights of 8 bits. The second network is dlib's face
recognition network, a ResNet with 128 output values.
"""

import json
import math
from pathlib import Path

import numpy as np
from keras import ops

# Mean color of the images that both networks were trained on, and the size of their images.
MEAN = (122.782, 117.001, 104.298)
LANDMARK_SIZE, FACE_SIZE = 112, 150


def weights_of(folder, name):
    """Returns the weights of a network as float32 arrays by their names.

    Args:
        folder: Folder with `NAME-weights_manifest.json` and the file that it names.
        name: Name of the network, such as `face_recognition_model`.
    """
    arrays = {}
    for group in json.loads((Path(folder) / f"{name}-weights_manifest.json").read_text()):
        data, start = b"".join((Path(folder) / path).read_bytes() for path in group["paths"]), 0
        for weight in group["weights"]:
            coding = weight.get("quantization", {"dtype": weight["dtype"], "scale": 1.0, "min": 0.0})
            count = math.prod(weight["shape"])
            values = np.frombuffer(data, coding["dtype"], count, start)
            start += values.nbytes
            arrays[weight["name"]] = (
                (values * coding["scale"] + coding["min"]).astype("float32").reshape(weight["shape"])
            )
        if start != len(data):
            raise ValueError(f"{name}: the manifest describes {start} bytes. Received: {len(data)} bytes.")
    return arrays


class FaceNetwork:
    """Computes 128 values of aligned faces `[B, 150, 150, 3]` with pixels from 0 to 255: dlib's network.

    Args:
        folder: Folder with the files of `face_recognition_model`.
    """

    def __init__(self, folder):
        self.weights = weights_of(folder, "face_recognition_model")

    def __call__(self, faces):
        features = (ops.convert_to_tensor(faces, "float32") - np.array(MEAN, "float32")) / 256.0
        features = ops.relu(self._scaled(features, "conv32_down", 2))
        features = ops.max_pool(features, 3, 2, "valid", data_format="channels_last")
        for width, blocks in ((32, 3), (64, 3), (128, 2), (256, 2)):
            if width > 32:
                features = self._halved(features, f"conv{width}_down")
            for block in range(1, blocks + 1):
                features = self._residual(features, f"conv{width}_{block}")
        features = self._halved(features, "conv256_down_out")
        return ops.matmul(ops.mean(features, axis=(1, 2)), self.weights["fc"])

    def _scaled(self, features, name, stride=1):
        weights = {part: self.weights[f"{name}/{part}"] for part in ("conv/filters", "conv/bias")}
        # In dlib, convolutions with a stride do not pad images.
        padding = "valid" if stride > 1 else "same"
        features = ops.conv(features, weights["conv/filters"], stride, padding, "channels_last")
        features = features + weights["conv/bias"]
        return features * self.weights[f"{name}/scale/weights"] + self.weights[f"{name}/scale/biases"]

    def _residual(self, features, name):
        inner = ops.relu(self._scaled(features, f"{name}/conv1"))
        return ops.relu(features + self._scaled(inner, f"{name}/conv2"))

    def _halved(self, features, name):
        inner = self._scaled(ops.relu(self._scaled(features, f"{name}/conv1", 2)), f"{name}/conv2")
        pooled = ops.average_pool(features, 2, 2, "valid", data_format="channels_last")
        # The sum has the larger of both sizes, and missing values are 0.
        shape = [max(sizes) for sizes in zip(pooled.shape[1:], inner.shape[1:], strict=True)]
        return ops.relu(sum(_enlarged(each, shape) for each in (pooled, inner)))


def _enlarged(features, shape):
    """Pads `[B, h, w, c]` with zeros at the ends to `[B, *shape]`."""
    sizes = zip(shape, features.shape[1:], strict=True)
    return ops.pad(features, [(0, 0), *((0, wanted - size) for wanted, size in sizes)])


class LandmarkNetwork:
    """Finds 68 landmarks `[B, 68, 2]` of faces `[B, 112, 112, 3]`, as x and y in fractions of the image.

    Args:
        folder: Folder with the files of `face_landmark_68_model`.
    """

    def __init__(self, folder):
        self.weights = weights_of(folder, "face_landmark_68_model")

    def __call__(self, faces):
        features = (ops.convert_to_tensor(faces, "float32") - np.array(MEAN, "float32")) / 255.0
        for block in range(4):
            features = self._block(features, f"dense{block}")
        features = ops.average_pool(features, 7, 2, "valid", data_format="channels_last")
        points = ops.matmul(ops.reshape(features, (len(faces), -1)), self.weights["fc/weights"])
        return ops.reshape(points + self.weights["fc/bias"], (-1, 68, 2))

    def _block(self, features, name):
        """Applies four convolutions, each to the sum of all earlier outputs of the block."""
        total = ops.relu(self._convolution(features, f"{name}/conv0", 2))
        for number in (1, 2, 3):
            total = total + self._convolution(ops.relu(total), f"{name}/conv{number}")
        return ops.relu(total)

    def _convolution(self, features, name, stride=1):
        if f"{name}/filters" in self.weights:
            features = ops.conv(features, self.weights[f"{name}/filters"], stride, "same", "channels_last")
        else:
            kernels = self.weights[f"{name}/depthwise_filter"], self.weights[f"{name}/pointwise_filter"]
            features = ops.separable_conv(features, *kernels, stride, "same", "channels_last")
        return features + self.weights[f"{name}/bias"]
