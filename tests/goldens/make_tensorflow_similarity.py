"""Writes tensorflow_similarity.json: values and gradients of TensorFlow Similarity 0.17.1 with TensorFlow 2.15.1.

In an environment of its own, of Python 3.11, without what its other parts need:

    pip install tensorflow-cpu==2.15.1
    pip install --no-deps tensorflow-similarity==0.17.1
    python tests/goldens/make_tensorflow_similarity.py

For each loss and each batch of inputs.json, in float32: `value`, the mean of what the loss returns, and `gradient` of
it with respect to the embeddings, which are scaled to unit length first, as the library expects.
"""

import importlib.util
import json
import os
import sys
import types
from pathlib import Path

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import tensorflow as tf  # noqa: E402

HERE = Path(__file__).parent

# The package itself imports searches and plots, which losses do not need.
package = types.ModuleType("tensorflow_similarity")
package.__path__ = importlib.util.find_spec("tensorflow_similarity").submodule_search_locations
sys.modules["tensorflow_similarity"] = package

from tensorflow_similarity import losses  # noqa: E402

LOSSES = {
    "pn": losses.PNLoss(),
    "pn_margin": losses.PNLoss("euclidean", "easy", "hard", margin=0.3),
    "soft_nearest_neighbor": losses.SoftNearestNeighborLoss(),
    "soft_nearest_neighbor_sharp": losses.SoftNearestNeighborLoss("cosine", temperature=0.2),
    "triplet": losses.TripletLoss(),
    "triplet_margin": losses.TripletLoss("sql2", "hard", "hard", margin=0.2),
    "triplet_easy": losses.TripletLoss("euclidean", "easy", "semi-hard", margin=1.0),
    "triplet_snr": losses.TripletLoss("snr", "hard", "hard", margin=1.0),
    "triplet_manhattan": losses.TripletLoss("manhattan", "hard", "hard", margin=1.0),
}


def golden(loss, labels, embeddings):
    variable = tf.Variable(embeddings)
    with tf.GradientTape() as tape:
        value = tf.reduce_mean(loss(labels, tf.math.l2_normalize(variable, axis=1)))
    return {"value": rounded(value.numpy()), "gradient": rounded(tape.gradient(value, variable).numpy())}


def rounded(array):
    return [rounded(part) for part in array] if array.ndim else float(f"{array:.8g}")


def main():
    batches = {
        name: batch for name, batch in json.loads((HERE / "inputs.json").read_text()).items() if "labels" in batch
    }
    goldens = {
        name: {
            which: golden(loss, tf.constant(batch["labels"]), tf.constant(batch["embeddings"]))
            for which, batch in batches.items()
        }
        for name, loss in LOSSES.items()
    }
    lines = [f"{json.dumps(name)}: {json.dumps(golden)}" for name, golden in goldens.items()]
    (HERE / "tensorflow_similarity.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
