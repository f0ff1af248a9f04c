"""Measures steps for `attention_ensemble`: reads a JSON question per line and prints an answer per line."""

import json
import resource
import sys
import time

import keras
import numpy as np
import tensorflow as tf

import tfdml


class Separate(tfdml.methods.AttentionEnsemble):
    """The same learners, each with its own forward pass after the masks."""

    def learner_embeddings(self, images, training=False):
        features = self.learner_features(images, training)
        second, head = self.seconds[0], self.heads[0]
        each = [head(second(features[:, k], training=training), training=training) for k in range(self.learners)]
        return tf.stack(each, axis=1)


METHODS = {"ABE": tfdml.methods.AttentionEnsemble, "separate": Separate, "heads": tfdml.methods.MultiHead}


def step_of(method, learners, batch, size):
    keras.utils.set_random_seed(0)
    model = METHODS[method](tfdml.backbones.GoogLeNet(), embedding_size=512, learners=learners)
    images = tf.constant(np.random.default_rng(0).normal(size=(batch, size, size, 3)), tf.float32)
    labels = tf.constant(np.arange(batch) // 2)
    model(images[:1])
    model.compile(keras.optimizers.SGD(1e-4, momentum=0.9), loss=tfdml.losses.Contrastive())
    model.optimizer.build(model.trainable_variables)
    traces = []

    @tf.function
    def step(images, labels):
        traces.append(1)
        return model.train_step((images, labels))["loss"]

    return lambda: (float(step(images, labels)), len(traces))


def main(case):
    del case
    step = None
    for line in sys.stdin:
        question = json.loads(line)
        if step is None:
            step = step_of(**question)
            step()
        began = time.perf_counter()
        _, traces = step()
        seconds = time.perf_counter() - began
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        print(json.dumps({"seconds": seconds, "peak": peak, "traces": traces}), flush=True)
