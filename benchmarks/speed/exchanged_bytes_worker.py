"""A worker of `exchanged_bytes`: reads a JSON question per line and prints the sizes of what it exchanges."""

import json
import os
import sys


def main(about):
    about = json.loads(about)
    import keras
    import numpy as np
    import tensorflow as tf

    import tfdml
    from tfdml.runtime.devices import strategy_for
    from tfdml.runtime.workers import Workers

    strategy = strategy_for("workers" if "TF_CONFIG" in os.environ else "cpu:1")
    workers = Workers.of(strategy)
    with strategy.scope():
        model = tfdml.Single(tfdml.backbones.Small(width=8, stages=2), embedding_size=128)
        model(np.zeros((1, 8, 8, 3), np.float32))
        model.compile(keras.optimizers.SGD(0.01), tfdml.losses.NormSoftmax(classes=about["classes"]))
    own = about["batch"] // workers.count
    batch = tf.zeros((own, 8, 8, 3)), tf.range(own)

    def batches(context=None):
        del context
        return tf.data.Dataset.from_tensors(batch).repeat()

    data = strategy.distribute_datasets_from_function(batches) if workers.count > 1 else batches()
    embeddings = np.zeros((about["rows"], 128), np.float32)
    share = workers.share(len(embeddings))
    sizes = {
        "embeddings": about["batch"] * 128,
        "weights": sum(int(np.prod(each.shape)) for each in model.trainable_variables),
        "statistics": sum(int(np.prod(each.shape)) for each in model.non_trainable_variables),
        "rows": embeddings.size,
    }
    for line in sys.stdin:
        question = json.loads(line)
        if steps := question.get("steps"):
            model.fit(data, steps_per_epoch=steps, verbose=0, shuffle=False)
        for _ in range(question.get("passes", 0)):
            workers.gather(lambda: (embeddings[share.start : share.stop],))
        print(json.dumps(sizes), flush=True)
