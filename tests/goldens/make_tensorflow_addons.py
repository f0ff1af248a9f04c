"""Writes tensorflow_addons.json: values and gradients of TensorFlow Addons 0.23.0 with TensorFlow 2.15.1.

In an environment of its own, of Python 3.11; without tensorflow-datasets, which takes other packages:

    pip install tensorflow-cpu==2.15.1 tensorflow-addons==0.23.0
    python tests/goldens/make_tensorflow_addons.py

For each loss and each batch of inputs.json, in float32, which is all that it computes in: `value`, the mean of what the
loss returns, and `gradient` of it with respect to what the loss takes: the embeddings; for npairs the similarities,
which are the embeddings' dot products here; for contrastive the distances. For npairs_multilabel, a row has its label
and the label modulo 3.
"""

import json
import os
from pathlib import Path

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import tensorflow as tf  # noqa: E402
import tensorflow_addons as tfa  # noqa: E402

HERE = Path(__file__).parent

LOSSES = {
    "triplet_semihard": tfa.losses.TripletSemiHardLoss(),
    "triplet_semihard_squared": tfa.losses.TripletSemiHardLoss(margin=0.3, distance_metric="squared-L2"),
    "triplet_semihard_angular": tfa.losses.TripletSemiHardLoss(margin=0.3, distance_metric="angular"),
    "triplet_hard": tfa.losses.TripletHardLoss(),
    "triplet_hard_soft": tfa.losses.TripletHardLoss(soft=True),
    "triplet_hard_squared": tfa.losses.TripletHardLoss(margin=0.3, distance_metric="squared-L2"),
    "triplet_hard_angular": tfa.losses.TripletHardLoss(margin=0.3, distance_metric="angular"),
    "lifted_struct": tfa.losses.LiftedStructLoss(),
    "lifted_struct_margin": tfa.losses.LiftedStructLoss(margin=0.4),
    "npairs": tfa.losses.NpairsLoss(),
    "npairs_multilabel": tfa.losses.NpairsMultilabelLoss(),
}
CONTRASTIVE = {"contrastive": tfa.losses.ContrastiveLoss(), "contrastive_margin": tfa.losses.ContrastiveLoss(0.7)}


def golden(loss, labels, taken):
    variable = tf.Variable(taken)
    with tf.GradientTape() as tape:
        value = tf.reduce_mean(loss(labels, variable))
    return {"value": rounded(value.numpy()), "gradient": rounded(tape.gradient(value, variable).numpy())}


def rounded(array):
    return [rounded(part) for part in array] if array.ndim else float(f"{array:.8g}")


def main():
    inputs = json.loads((HERE / "inputs.json").read_text())
    goldens = {name: {} for name in (*LOSSES, *CONTRASTIVE)}
    for which, batch in inputs.items():
        if which == "distances":
            for name, loss in CONTRASTIVE.items():
                goldens[name][which] = golden(loss, tf.constant(batch["same"]), tf.constant(batch["distances"]))
            continue
        labels, embeddings = tf.constant(batch["labels"]), tf.constant(batch["embeddings"])
        for name, loss in LOSSES.items():
            taken = tf.matmul(embeddings, embeddings, transpose_b=True) if name.startswith("npairs") else embeddings
            has = tf.maximum(tf.one_hot(labels, 7), tf.one_hot(labels % 3, 7)) if "multilabel" in name else labels
            goldens[name][which] = golden(loss, has, taken)
    lines = [f"{json.dumps(name)}: {json.dumps(golden)}" for name, golden in goldens.items()]
    (HERE / "tensorflow_addons.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
