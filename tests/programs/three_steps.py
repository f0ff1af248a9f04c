"""Takes three steps on the given devices and stores the weights: `three_steps.py DEVICES OUTPUT LOSS OPTIMIZER`.

A process of its own for each kind of device: virtual CPUs and collectives are set up once in a process.
"""

import sys

import keras
import numpy as np
import tensorflow as tf

import tfdml
from pipelines.build import training_batches
from pipelines.datasets import Split
from pipelines.images import preparation
from pipelines.sampling import PxK
from tfdml import registry
from tfdml.callbacks import Progress, WeightAverage
from tfdml.devices import is_chief, strategy_for

CLASSES, PER_CLASS, SIDE, STEPS = 8, 8, 16, 3


def main(devices, output, loss, optimizer):
    strategy = strategy_for(devices)
    keras.utils.set_random_seed(0)
    split = random_split()
    sampler = PxK(classes=4, per_class=4)
    sampler.bind(split.labels)
    prepare = preparation("random_resized_crop|flip", image_size=SIDE, mean=(127.5,) * 3, std=(64.0,) * 3)
    progress = Progress(STEPS)

    def share_of(context):
        workers = context.num_input_pipelines
        parts = context.num_replicas_in_sync // workers
        return training_batches(split, sampler, prepare, worker=(context.input_pipeline_id, workers), parts=parts, **at)

    at = {"seed": 0, "step": progress.pipeline_step, "steps_per_epoch": STEPS}
    with strategy.scope():
        model = make_model(loss, optimizer)
    if devices == "workers":
        data = strategy.distribute_datasets_from_function(share_of)
    else:
        data = training_batches(split, sampler, prepare, **at)
    average = WeightAverage(0.5)
    history = model.fit(data, callbacks=[progress, average], verbose=0, shuffle=False).history
    with average.applied():
        averaged = [weight.numpy() for weight in model.trainable_variables]
    if is_chief(strategy):
        weights = [strategy.experimental_local_results(weight.value)[0].numpy() for weight in model.variables]
        weights += averaged
        np.savez(output, *weights, loss=history["loss"], replicas=strategy.num_replicas_in_sync)


def random_split():
    rng = np.random.default_rng(0)
    images = np.empty(CLASSES * PER_CLASS, object)
    images[:] = [
        tf.io.encode_png(rng.integers(0, 256, (SIDE, SIDE, 3), dtype=np.uint8)).numpy() for _ in range(len(images))
    ]
    return Split(images, np.repeat(np.arange(CLASSES), PER_CLASS))


def make_model(loss, optimizer):
    backbone = tfdml.backbones.Small(width=8, stages=2)
    for layer in backbone.layers:
        # Its batch statistics are each replica's own, which no loss on the global batch can change.
        layer.trainable = not isinstance(layer, keras.layers.BatchNormalization)
    model = tfdml.Single(backbone, embedding_size=16)
    model(np.zeros((1, SIDE, SIDE, 3), np.float32))
    model.compile(registry.create("optimizer", optimizer), loss=loss)
    model.optimizer.build(model.trainable_variables)
    return model


if __name__ == "__main__":
    main(*sys.argv[1:])
