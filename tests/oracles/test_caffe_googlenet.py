"""Caffe's GoogLeNet, written a second time from its published definition (bvlc_googlenet/deploy.prototxt)."""

import numpy as np
import torch
import torch.nn.functional as F

from tests.backbones.weights.published_files import CAFFE_BLOCKS
from tfdml.backbones.published_weights import convert


class CaffeGoogLeNet:
    """Makes its weights as it first meets a layer, and keeps every output by the layer's name."""

    def __init__(self, seed):
        self.generator = torch.Generator().manual_seed(seed)
        self.weights, self.outputs = {}, {}

    def conv(self, name, bottom, num_output, kernel_size, stride=1, pad=0):
        if f"{name}.weight" not in self.weights:
            shape = (num_output, bottom.shape[1], kernel_size, kernel_size)
            scale = (2 / np.prod(shape[1:])) ** 0.5
            self.weights[f"{name}.weight"] = torch.randn(shape, generator=self.generator) * scale
            self.weights[f"{name}.bias"] = torch.randn(num_output, generator=self.generator) * 0.2
        weight, bias = self.weights[f"{name}.weight"], self.weights[f"{name}.bias"]
        return F.relu(F.conv2d(bottom, weight, bias, stride=stride, padding=pad))

    def pool(self, name, bottom):
        self.outputs[name] = F.max_pool2d(bottom, 3, 2, ceil_mode=True)
        return self.outputs[name]

    def lrn(self, bottom):
        return F.local_response_norm(bottom, size=5, alpha=1e-4, beta=0.75, k=1.0)

    def inception(self, block, bottom):
        name, (_, outputs) = f"inception_{block}", CAFFE_BLOCKS[block]
        branches = [
            self.conv(f"{name}/1x1", bottom, outputs[0], 1),
            self.conv(f"{name}/3x3", self.conv(f"{name}/3x3_reduce", bottom, outputs[1], 1), outputs[2], 3, pad=1),
            self.conv(f"{name}/5x5", self.conv(f"{name}/5x5_reduce", bottom, outputs[3], 1), outputs[4], 5, pad=2),
            self.conv(f"{name}/pool_proj", F.max_pool2d(bottom, 3, 1, padding=1), outputs[5], 1),
        ]
        self.outputs[name] = torch.cat(branches, 1)
        return self.outputs[name]

    def __call__(self, data):
        top = self.lrn(self.pool("pool1", self.conv("conv1/7x7_s2", data, 64, 7, stride=2, pad=3)))
        top = self.conv("conv2/3x3", self.conv("conv2/3x3_reduce", top, 64, 1), 192, 3, pad=1)
        top = self.pool("pool2", self.lrn(top))
        top = self.pool("pool3", self.inception("3b", self.inception("3a", top)))
        for block in ("4a", "4b", "4c", "4d", "4e"):
            top = self.inception(block, top)
        top = self.pool("pool4", top)
        return self.inception("5b", self.inception("5a", top))


def test_every_endpoint_agrees():
    pixels = np.random.default_rng(0).integers(0, 256, (2, 75, 97, 3)).astype(np.float64)
    # Caffe reads images with OpenCV, blue first, and subtracts its mean values in that order.
    data = pixels[..., ::-1] - np.array([104, 117, 123])
    network = CaffeGoogLeNet(seed=0)
    network(torch.tensor(data, dtype=torch.float32).permute(0, 3, 1, 2))
    tensors = {name: value.numpy() for name, value in network.weights.items()}
    assert sum(value.size for value in tensors.values()) == 6_998_552 - 1_025_000

    backbone = convert("caffe_googlenet", tensors, show=lambda line: None)
    ours = pixels[..., ::-1] if backbone.channels == "bgr" else pixels
    ours = ((ours - np.array(backbone.mean)) / np.array(backbone.std)).astype(np.float32)
    assert backbone.endpoints.keys() == network.outputs.keys()
    found = backbone.taps(list(backbone.endpoints))(ours)
    for name, features in zip(backbone.endpoints, found, strict=True):
        expected = network.outputs[name].permute(0, 2, 3, 1).numpy()
        assert features.shape == expected.shape, name
        difference = np.abs(np.asarray(features) - expected).max()
        assert difference <= 1e-4 * np.abs(expected).max(), (name, difference)
