"""Takes three steps of each case on the given devices and stores the weights: `three_steps.py DEVICES FOLDER CASE...`.

A process of its own for each kind of device: virtual CPUs and collectives are set up once in a process.

Two devices sum in another order than one, and three steps let the difference grow. In a network with ReLU rounding can
also put a value on the other side of 0, and then whole gradients differ: in float32 weights then differ by 2e-4 on some
processors. So every case is run in float64, where equal means equal to 1e-12; and in float32, which people use, those
that keep rounding small, on a network without a bend.
"""

import sys
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

import tfdml
from pipelines.build import training_batches, with_anchors
from pipelines.captions import as_column
from pipelines.datasets import Split
from pipelines.preprocessor import Preprocessor
from pipelines.sampling import PxK, Uniform
from pipelines.stored import StoredVectors
from tfdml import registry
from tfdml.backbones import recompute_blocks
from tfdml.backbones.backbone import Backbone
from tfdml.callbacks import ImageProxies, WeightAverage
from tfdml.layers.norms import batch_norms
from tfdml.registry.loss_hooks import hooks_of
from tfdml.run.directory.checkpoints import snapshot
from tfdml.run.experiment.images import texts_of
from tfdml.run.training.run_callbacks import Progress
from tfdml.runtime.devices import is_chief, strategy_for

CLASSES, PER_CLASS, SIDE, STEPS = 8, 8, 16, 3


# Not Adam with its small epsilon: it divides by the gradient's size, and makes rounding of the smallest visible.
PLAIN = "sgd(learning_rate=0.5, momentum=0.9)"
# For losses that sum over pairs: with longer steps a difference of rounding grows a hundredfold in three of them.
GENTLE = "sgd(learning_rate=0.005, momentum=0.9)"
TOWERS = "two_towers(text='small(width=8, depth=1, heads=2, length=12)')"
# Name to loss, optimizer and method, and memory and pieces where there are any.
CASES = {
    "pairs": ("triplet(mining='all')", PLAIN, "single"),
    "groups": (
        "proxy_nca(classes=8)",
        "sgd(learning_rate=0.5, momentum=0.9, weight_decay=0.1, lr_multipliers={'loss': 10, 'stage1_conv1': 0}, "
        "frozen_steps={'backbone': 2}, global_clipnorm=0.05)",
        "single",
    ),
    "groups_with_moments": (
        "proxy_nca(classes=8, sampled_classes=6)",
        "adamw(learning_rate=0.1, weight_decay=0.5, epsilon=0.1, lr_multipliers={'embedding': 3}, "
        "frozen_steps={'stage1_*': 1}, decay_biases_and_norms=False)",
        "single",
    ),
    # Numbers of classes that do not divide by that of devices.
    "shards": (
        "norm_softmax(classes=9, sharded=True)",
        "sgd(learning_rate=0.5, momentum=0.9, weight_decay=0.1, lr_multipliers={'loss': 10}, "
        "frozen_steps={'backbone': 2}, global_clipnorm=0.05)",
        "single",
    ),
    "shards_with_moments": (
        "0.5*triplet + sub_center_arc_face(classes=9, scale=8, per_class=2, sharded=True)",
        "adamw(learning_rate=0.1, weight_decay=0.5, epsilon=0.1)",
        "multi_head(learners=2, branch='stage1')",
    ),
    "turns": (
        "proxy_nca(classes=8)",
        "adamw(learning_rate=0.1, weight_decay=0.5, epsilon=0.1)",
        "divide_and_conquer(learners=2)",
    ),
    "attention": ("contrastive", GENTLE, "attention_ensemble(learners=2, branch='stage1', attention_depth=1)"),
    "heads": ("contrastive", GENTLE, "multi_head(learners=2, branch='stage1', attention=True, attention_depth=1)"),
    "tails": ("contrastive", GENTLE, "multi_tail(learners=2, branch='stage1')", "xbm(size=40, start=1)"),
    "level": ("ranked_list_simpler", GENTLE, "multilevel(endpoints=('stage1',), reduced=4, hidden=8)"),
    "levels": ("ranked_list_simpler", GENTLE, "multilevel(endpoints=('stage1', 'stage2'), reduced=4, hidden=8)"),
    "at_once": ("proxy_nca(classes=8)", PLAIN, "divide_and_conquer(learners=2, simultaneous=True)"),
    "not_normalized": ("lifted_structure(margin=1.0)", GENTLE, "single(normalize=False)"),
    "pieces": ("multi_similarity", GENTLE, "single", "xbm(size=40, start=1)", 4),
    "shards_in_pieces": ("norm_softmax(classes=9, sharded=True)", PLAIN, "single", None, 4),
    # A loss that draws random numbers, one on pairs and proxies, and regularizers of proxies and of the batch.
    "mixtures_in_pieces": (
        "recall_at_k(mixtures=2, temperature=0.2) + potential_field(classes=8, per_class=2, delta=0.5)"
        " + 0.1*regular_face + 0.01*anti_collapse",
        GENTLE,
        "single",
        None,
        4,
    ),
    "cascade": (
        "contrastive",
        GENTLE,
        "multilevel(endpoints=('stage1', 'stage2'), reduced=4, hidden=8, cascade=(1.0, 0.5))",
    ),
    "fixed_proxies": ("contextual_manifold(classes=8, proxies='images')", GENTLE, "single"),
    "streams": ("contrastive", GENTLE, "two_streams"),
    "texts": ("image_text", GENTLE, TOWERS),
    "texts_by_sigmoid": ("image_text(form='sigmoid')", GENTLE, TOWERS),
    "texts_in_pieces": ("image_text", GENTLE, TOWERS, None, 4),
    "texts_by_sigmoid_in_pieces": ("image_text(form='sigmoid')", GENTLE, TOWERS, None, 4),
    # A student of a teacher near its initial weights and near the initial embeddings of other images.
    "references": (
        "triplet(mining='all') + teacher(form='pairs', teacher_dims=6) + 0.5*teacher(teacher_dims=6) + toward_initial"
        " + 0.1*toward_initial(of='weights')",
        GENTLE,
        "multi_head(learners=2, branch='stage1')",
    ),
    "blocks": ("triplet(mining='all')", GENTLE, "single", None, 1, "kept"),
    "recomputed_blocks": ("triplet(mining='all')", GENTLE, "single", None, 1, "recomputed"),
}
IN_FLOAT32 = {f"{name}_in_float32": CASES[name] for name in ("pairs", "groups", "shards")}


class HeldProxies(ImageProxies):
    """Stands for what computes proxies from images: they stay as they began."""

    def __init__(self):
        super().__init__(images=None, labels=np.arange(8))

    def set_model(self, model):
        keras.callbacks.Callback.set_model(self, model)

    def on_epoch_begin(self, epoch, logs=None):
        pass


def main(devices, folder, *cases):
    # Improving the graphs would take longer than anything else.
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    # As in the commands.
    tf.config.experimental.enable_tensor_float_32_execution(False)
    strategy = strategy_for(devices)
    for name in cases:
        set_precision("float32" if name in IN_FLOAT32 else "float64")
        stored = three_steps(strategy, devices, *(CASES | IN_FLOAT32)[name])
        if is_chief(strategy):
            np.savez(Path(folder) / f"{name}.npz", **stored)


def set_precision(name):
    keras.config.set_floatx(name)
    keras.config.set_dtype_policy(name)


def three_steps(strategy, devices, loss, optimizer, method, memory=None, pieces=1, blocks=None):
    """Name to array: all weights and the memory, their average, the loss of the epoch and the number of replicas."""
    keras.utils.set_random_seed(0)
    split = random_split()
    sampler = PxK(classes=4, per_class=4)
    with strategy.scope():
        model = make_model(loss, optimizer, method, memory, pieces, blocks)
    if model.division:
        sampler = model.wrap_sampler(sampler)
    sampler.bind(split.labels)
    if model.division:
        sampler.assign(split.labels % 2)
    prepare = Preprocessor("random_resized_crop|flip", image_size=SIDE, mean=(127.5,) * 3, std=(64.0,) * 3)
    progress = Progress(STEPS)
    at = {"seed": 0, "step": progress.pipeline_step, "steps_per_epoch": STEPS}
    takes_pairs = isinstance(model, tfdml.TwoTowers) and model.takes_pairs
    at["texts"] = texts_of(split, model) if takes_pairs else None

    def batches(**share):
        if not hooks_of(model.loss).references:
            return training_batches(split, sampler, prepare, **at, **share)
        draws = np.random.default_rng(1)
        teacher, initial = (StoredVectors([draws.normal(size=(len(split), dims))]) for dims in (6, 16))
        found = training_batches(split, sampler, prepare, vectors={"teacher": teacher}, **at, **share)
        others = Uniform(sampler.batch_size)
        others.bind(split.labels)
        return with_anchors(
            found, training_batches(split, others, prepare, vectors={"initial": initial}, **at, **share)
        )

    def share_of(context):
        workers = context.num_input_pipelines
        return batches(worker=(context.input_pipeline_id, workers), parts=context.num_replicas_in_sync // workers)

    if devices == "workers":
        data = strategy.distribute_datasets_from_function(share_of)
    else:
        data = batches()
    if method == "two_streams":
        data = data.map(lambda images, batch: ({"query": images, "gallery": images[:, ::-1]}, batch))
    average = WeightAverage(0.5)
    callbacks = [progress, average, HeldProxies()]
    history = model.fit(data, callbacks=callbacks, verbose=0, shuffle=False).history
    with average.applied():
        averaged = [weight.numpy() for weight in model.trainable_variables]
    variables = model.variables + (model.past_batches.variables if memory else [])
    weights = [array for _, array in snapshot(variables, strategy)]
    arrays = {f"arr_{number}": array for number, array in enumerate(weights + averaged)}
    statistics = list(model.loss_statistics().values())
    return {**arrays, "loss": history["loss"], "statistics": statistics, "replicas": strategy.num_replicas_in_sync}


def random_split():
    rng = np.random.default_rng(0)
    images = np.empty(CLASSES * PER_CLASS, object)
    images[:] = [
        tf.io.encode_png(rng.integers(0, 256, (SIDE, SIDE, 3), dtype=np.uint8)).numpy() for _ in range(len(images))
    ]
    labels = np.repeat(np.arange(CLASSES), PER_CLASS)
    # Images of a class share a caption, and each has one of its own.
    captions = as_column((f"class {label}", f"image {row}") for row, label in enumerate(labels))
    return Split(images, labels, captions=captions)


def make_model(loss, optimizer, method, memory, pieces, blocks):
    networks = [make_backbone(blocks) for _ in range(1 + (method == "two_streams"))]
    if method == "two_streams":
        model = tfdml.TwoStreams(*(tfdml.Single(network, embedding_size=16) for network in networks))
    else:
        model = registry.create("method", method, backbone=networks[0], embedding_size=16)
    model(np.zeros((1, SIDE, SIDE, 3), np.float32))
    if blocks == "recomputed":
        assert recompute_blocks(model.backbone) == 2
    for norm in batch_norms(model):
        # Its batch statistics are each replica's own, which no loss on the global batch can change.
        norm.trainable = False
    # Which Keras else chooses on one GPU alone.
    more = {"memory": memory, "pieces": pieces, "jit_compile": False}
    model.compile(registry.create("optimizer", optimizer), loss=loss, **more)
    model.optimizer.build(model.trainable_variables)
    return model


def make_backbone(blocks):
    if blocks:
        return backbone_of_blocks()
    return tfdml.backbones.Small(width=8, stages=2) if keras.config.floatx() == "float64" else smooth_backbone()


class Block(keras.layers.Layer):
    """A residual block, made of layers."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.norm, self.dense = keras.layers.LayerNormalization(), keras.layers.Dense(8, "gelu")

    def build(self, shape):
        self.norm.build(shape)
        self.dense.build(shape)

    def call(self, features):
        return features + self.dense(self.norm(features))


def backbone_of_blocks():
    inputs = keras.Input((None, None, 3))
    features = keras.layers.Conv2D(8, 4, strides=4, name="patches")(inputs)
    for name in ("first", "second"):
        features = Block(name=name)(features)
    return Backbone(inputs, {"output": features}, mean=(127.5,) * 3, std=(64.0,) * 3, image_size=SIDE, name="blocks")


def smooth_backbone():
    """As `Small` of two stages, without ReLU, maxima and batch norm."""
    features = inputs = keras.Input((None, None, 3))
    endpoints = {}
    for stage, channels in (("stage1", 8), ("stage2", 16)):
        for conv in (f"{stage}_conv1", f"{stage}_conv2"):
            features = keras.layers.Conv2D(channels, 3, padding="same", activation="swish", name=conv)(features)
        endpoints[stage] = features
        features = keras.layers.AveragePooling2D(2, name=f"{stage}_pool")(features)
    preprocessing = {"mean": (127.5,) * 3, "std": (64.0,) * 3, "image_size": SIDE}
    return Backbone(inputs, endpoints, **preprocessing, name="smooth")


if __name__ == "__main__":
    main(*sys.argv[1:])
