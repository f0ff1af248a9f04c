"""Computes losses with Keras on PyTorch, as `losses_on_jax` does on JAX, but not compiled and always with gradients.

A result is `{"values", "statistics", "compiled_mean", "gradients"}`.
"""

import json
import sys

import keras
import torch

from tfdml import registry


def main():
    results = [compute(**case) for case in json.load(sys.stdin)]
    print(json.dumps({"backend": keras.backend.backend(), "modules": sorted(sys.modules), "results": results}))


def compute(spec, labels, embeddings, weights, gradients):
    del gradients
    loss = registry.create("loss", spec)
    labels, embeddings = torch.tensor(labels), torch.tensor(embeddings, requires_grad=True)
    layer, trained = loss.make_layer(), []
    if layer is not None:
        layer.build((None, embeddings.shape[1]))
        for weight, start in zip(layer.weights, weights, strict=True):
            weight.assign(start)
        trained = [weight.value for weight in layer.trainable_weights]
    taken = layer(embeddings, labels) if layer else embeddings
    values, mean = loss.call(labels, taken), loss(labels, taken)
    parts = torch.autograd.grad(mean, [embeddings, *trained])
    return {
        "values": values.tolist(),
        "statistics": {name: float(value) for name, value in loss.statistics(labels, taken).items()},
        "compiled_mean": mean.item(),
        "gradients": [part.tolist() for part in parts],
    }


if __name__ == "__main__":
    main()
