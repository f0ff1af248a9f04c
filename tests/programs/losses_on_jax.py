"""Computes losses with Keras on JAX: a JSON of cases on standard input, a JSON of results on standard output.

A case is `{"spec", "labels", "embeddings", "weights", "gradients"}`, the weights being those of the loss' layer, if it
has one. A result is `{"values"}` and, where gradients are asked for, `{"compiled_mean", "gradients"}`, from a compiled
function: the mean, and its gradients for the embeddings and the weights.
"""

import json
import sys

import jax
import keras

from tfdml import registry


def main():
    cases = json.load(sys.stdin)
    results = [compute(**case) for case in cases]
    print(json.dumps({"backend": keras.backend.backend(), "modules": sorted(sys.modules), "results": results}))


def compute(spec, labels, embeddings, weights, gradients):
    loss = registry.create("loss", spec)
    labels, embeddings = jax.numpy.array(labels, "int32"), jax.numpy.array(embeddings, "float32")
    weights = [jax.numpy.array(weight, "float32") for weight in weights]
    layer = loss.make_layer()
    if layer is not None:
        layer.build((None, embeddings.shape[1]))
        layer.built = True

    def values(embeddings, weights, labels):
        taken = layer.stateless_call(weights, [], embeddings, labels)[0] if layer else embeddings
        return loss.call(labels, taken)

    def mean(embeddings, weights, labels):
        taken = layer.stateless_call(weights, [], embeddings, labels)[0] if layer else embeddings
        return loss(labels, taken)

    result = {"values": values(embeddings, weights, labels).tolist()}
    if gradients:
        gradient = jax.value_and_grad(mean, argnums=(0, 1))
        value, (of_embeddings, of_weights) = jax.jit(gradient)(embeddings, weights, labels)
        result["compiled_mean"] = value.tolist()
        result["gradients"] = [part.tolist() for part in (of_embeddings, *of_weights)]
    return result


if __name__ == "__main__":
    main()
