"""Makes passes over images on the given devices and stores what they give: `shared_passes.py DEVICES FOLDER [FAULT]`.

Each worker stores its own file. The fault of the last worker may be `error` or `kill`, while it embeds.
"""

import os
import signal
import sys
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

import tfdml
from pipelines.build import evaluation_batches
from pipelines.datasets import Split
from pipelines.preprocessor import Preprocessor
from pipelines.sampling import HardNeighbors, PxK, WithinClusters
from tfdml.callbacks import ImageProxies, Recluster, RetrievalEvaluation, SamplerRefresh
from tfdml.evaluation import Embedder
from tfdml.evaluation.protocols import protocol_of
from tfdml.neighbors.nearest import nearest_negatives
from tfdml.runtime import workers as workers_module
from tfdml.runtime.devices import strategy_for
from tfdml.runtime.workers import Workers

# Seven batches, of which the last is filled up: workers have unequal shares.
CLASSES, PER_CLASS, SIDE, BATCH = 9, 6, 20, 8
PROXIES = "proxies='hard', proxy_steps=5, proxy_rate=0.1"
METRICS = ("recall_at_1", "map_at_r", "map", "nmi", "uniformity")


def main(devices, folder, fault=None):
    # As in a run.
    tf.config.threading.set_inter_op_parallelism_threads(1)
    strategy = strategy_for(devices)
    tf.config.experimental.enable_op_determinism()
    # So that arrays take several pieces.
    workers_module.PIECE = 1000
    workers = Workers.of(strategy)
    divided, single = make_models(strategy)
    if fault:
        print(error_of(fault, single, workers))
    else:
        np.savez(Path(folder) / f"{workers.index}.npz", **passes(divided, single, workers))


def passes(divided, single, workers):
    """Name to array: all that is made from the embeddings of all images."""
    split = random_split()
    batches = batches_of(split, workers)
    embedder, seen = Embedder(single, verbose=0), []
    forward = embedder._forward
    embedder._forward = lambda images: seen.append(len(images)) or forward(images)
    embeddings = embedder(batches, len(split))
    scores = protocol_of("self_retrieval", METRICS).scores(embeddings, split, workers=workers)
    neighbors = nearest_negatives(embeddings, split.labels, 3, memory=10_000, workers=workers)
    clusters = WithinClusters(PxK(classes=2, per_class=2))
    clusters.bind(split.labels)
    recluster = begun(Recluster(batches, split.labels, clusters), divided)
    sampler = HardNeighbors(pairs=2)
    sampler.bind(split.labels)
    refresh = begun(SamplerRefresh(batches, sampler, count=len(split)), single, epoch=1)
    begun(ImageProxies(batches, split.labels), single)
    evaluation = begun(RetrievalEvaluation(pixels_of(split), split.labels), single)
    return {
        "seen by this worker": sum(seen),
        "embeddings": embeddings,
        "values": list(scores.values.values()),
        **{f"{name} of queries": values for name, values in scores.per_query.items()},
        "neighbors": neighbors,
        "assignment": recluster.assignment,
        "refreshed": refresh.variables[0].numpy(),
        "proxies": keras.ops.convert_to_numpy(single.loss_layers.learners[0].proxies),
        "embeddings of an array": evaluation.embeddings,
        "recalls": list(evaluation.history[0]["metrics"].values()),
    }


def begun(callback, model, epoch=0):
    """A callback that has seen a training begin."""
    callback.set_model(model)
    callback.on_train_begin()
    callback.on_epoch_begin(epoch)
    return callback


def error_of(fault, model, workers):
    """The type and text of the error where the last worker cannot read an image, or is killed, as it embeds."""
    split = random_split()
    if fault == "error":
        split.images[-1] = b"no image"
    batches = batches_of(split, workers)
    if fault == "kill" and workers.index:
        batches = batches.map(lambda images: tf.py_function(killed, [images], tf.float32))
    try:
        Embedder(model, verbose=0)(batches, len(split))
    except tf.errors.OpError as error:
        return f"{type(error).__name__}: {error.message}"
    return "no error"


def killed(images):
    os.kill(os.getpid(), signal.SIGKILL)


def random_split():
    pixels = np.random.default_rng(0).integers(0, 256, (CLASSES * PER_CLASS, SIDE, SIDE, 3), dtype=np.uint8)
    images = np.empty(len(pixels), object)
    images[:] = [tf.io.encode_png(each).numpy() for each in pixels]
    return Split(images, np.repeat(np.arange(CLASSES), PER_CLASS))


def pixels_of(split):
    return np.stack([tf.io.decode_png(image) for image in split.images]).astype(np.float32)


def batches_of(split, workers):
    prepare = Preprocessor("warp", image_size=SIDE, mean=(127.5,) * 3, std=(64.0,) * 3)
    return evaluation_batches(split, prepare, batch_size=BATCH, share=workers.share)


def make_models(strategy):
    """A model of several learners, and one whose loss has proxies that are features of images."""
    keras.utils.set_random_seed(0)
    with strategy.scope():
        divided = tfdml.DivideAndConquer(tfdml.backbones.Small(width=8, stages=2), embedding_size=16, learners=2)
        single = tfdml.Single(tfdml.backbones.Small(width=8, stages=2), embedding_size=16)
        for model in (divided, single):
            model(np.zeros((1, SIDE, SIDE, 3), np.float32))
            model.compile("sgd", loss=f"proxy_n_pair(classes={CLASSES}, {PROXIES})")
            model.optimizer.build(model.trainable_variables)
    return divided, single


if __name__ == "__main__":
    main(*sys.argv[1:])
