"""Computes losses with Keras on JAX: a JSON of cases on standard input, a JSON of results on standard output.

A case is `{"spec", "labels", "embeddings", "weights", "gradients"}`, the weights being those of the loss' layer, if it
has one. A result is `{"values"}` and, where gradients are asked for, the loss' `{"statistics"}`, and
`{"compiled_mean", "gradients"}` from a compiled function: the mean, and its gradients for the embeddings and the
weights. Values without gradients are not compiled.
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

    def taken(embeddings, weights, labels):
        return layer.stateless_call(weights, [], embeddings, labels)[0] if layer else embeddings

    def mean_and_values(embeddings, weights, labels):
        given = taken(embeddings, weights, labels)
        return loss(labels, given), loss.call(labels, given)

    if not gradients:
        return {"values": loss.call(labels, taken(embeddings, weights, labels)).tolist()}
    compiled = jax.jit(jax.value_and_grad(mean_and_values, argnums=(0, 1), has_aux=True))
    (mean, values), (of_embeddings, of_weights) = compiled(embeddings, weights, labels)
    said = loss.statistics(labels, taken(embeddings, weights, labels))
    return {
        "values": values.tolist(),
        "statistics": {name: float(value) for name, value in said.items()},
        "compiled_mean": mean.tolist(),
        "gradients": [part.tolist() for part in (of_embeddings, *of_weights)],
    }


if __name__ == "__main__":
    main()
