"""Measures losses of one library for `losses`: a JSON question a line in, a JSON answer a line out."""

import json
import sys
import time

import numpy as np

from benchmarks.speed.peak_memory import MIB, peak, reset_peak

CLASSES = 512

# Name, our spec, and what is the same in pytorch-metric-learning, as far as it has it.
OURS = {
    "angular": "angular",
    "arc_face": f"arc_face(classes={CLASSES})",
    "circle": "circle",
    "contrastive": "contrastive",
    "cos_face": f"cos_face(classes={CLASSES})",
    "fast_ap": "fast_ap",
    "histogram": "histogram",
    "intrinsic_manifold": f"intrinsic_manifold(classes={CLASSES})",
    "lifted_structure": "lifted_structure",
    "margin": "margin(mining='all')",
    "multi_similarity": "multi_similarity",
    "n_pair": "n_pair",
    "n_pair first_pair_per_class": "n_pair(negatives='first_pair_per_class', normalize=True)",
    "norm_softmax": f"norm_softmax(classes={CLASSES})",
    "proxy_anchor": f"proxy_anchor(classes={CLASSES})",
    "proxy_nca": f"proxy_nca(classes={CLASSES})",
    "ranked_list": "ranked_list",
    "soft_triple": f"soft_triple(classes={CLASSES})",
    "sup_con": "sup_con",
    "triplet all": "triplet(mining='all', squared=False)",
    "triplet semi_hard": "triplet(mining='semi_hard', squared=False)",
    "triplet batch_hard": "triplet(mining='batch_hard', squared=False)",
}
THEIRS = {
    "angular": ("AngularLoss", None),
    "arc_face": ("ArcFaceLoss", None),
    "circle": ("CircleLoss", None),
    "contrastive": ("ContrastiveLoss", None),
    "cos_face": ("CosFaceLoss", None),
    "fast_ap": ("FastAPLoss", None),
    "histogram": ("HistogramLoss", None),
    "intrinsic_manifold": ("ManifoldLoss", None),
    "lifted_structure": ("LiftedStructureLoss", None),
    "margin": ("MarginLoss", None),
    "multi_similarity": ("MultiSimilarityLoss", "MultiSimilarityMiner"),
    "n_pair": ("NPairsLoss", None),
    "n_pair first_pair_per_class": ("NPairsLoss", None),
    "norm_softmax": ("NormalizedSoftmaxLoss", None),
    "proxy_anchor": ("ProxyAnchorLoss", None),
    "proxy_nca": ("ProxyNCALoss", None),
    "ranked_list": ("RankedListLoss", None),
    "soft_triple": ("SoftTripleLoss", None),
    "sup_con": ("SupConLoss", None),
    "triplet all": ("TripletMarginLoss", None),
    "triplet semi_hard": ("TripletMarginLoss", "TripletMarginMiner"),
    "triplet batch_hard": ("TripletMarginLoss", "BatchHardMiner"),
}


def batch(size, dim):
    embeddings = np.random.default_rng(0).normal(size=(size, dim)).astype(np.float32)
    embeddings /= np.linalg.norm(embeddings, axis=1, keepdims=True)
    return np.arange(size) // 4 % CLASSES, embeddings


def step_of_ours(name, size, dim, jit_compile):
    import tensorflow as tf

    import tfdml

    labels, embeddings = batch(size, dim)
    loss = tfdml.registry.create("loss", OURS[name])
    layer = loss.make_layer()
    if layer is not None:
        layer.build((None, dim))
    weights = [weight.value for weight in layer.trainable_weights] if layer else []

    @tf.function(jit_compile=jit_compile)
    def step(labels, embeddings):
        with tf.GradientTape() as tape:
            tape.watch(embeddings)
            taken = layer(embeddings, labels) if layer else embeddings
            value = tf.reduce_mean(loss.call(labels, taken))
        return value, tape.gradient(value, [embeddings, *weights])

    labels, embeddings = tf.constant(labels), tf.constant(embeddings)
    return lambda: step(labels, embeddings)[0].numpy()


def step_of_theirs(name, size, dim, jit_compile):
    import torch
    from pytorch_metric_learning import losses, miners

    del jit_compile

    labels, embeddings = batch(size, dim)
    loss_name, miner_name = THEIRS[name]
    arguments = {}
    if OURS[name].endswith(f"classes={CLASSES})") and loss_name != "ManifoldLoss":
        arguments = {"num_classes": CLASSES, "embedding_size": dim}
    elif loss_name == "ManifoldLoss":
        # Theirs takes no more classes than rows.
        arguments = {"l": dim, "K": min(CLASSES, size // 4)}
    elif loss_name == "RankedListLoss":
        arguments = {"margin": 0.4, "Tn": 10}
    loss = getattr(losses, loss_name)(**arguments)
    if miner_name == "TripletMarginMiner":
        miner = miners.TripletMarginMiner(margin=0.2, type_of_triplets="semihard")
    else:
        miner = getattr(miners, miner_name)() if miner_name else None
    labels, embeddings = torch.tensor(labels), torch.tensor(embeddings, requires_grad=True)

    def step():
        embeddings.grad = None
        # Theirs takes no labels: it draws meta-classes itself.
        given = () if loss_name == "ManifoldLoss" else (labels, miner(embeddings, labels) if miner else None)
        value = loss(embeddings, *given)
        value.backward()
        return value.item()

    return step


def main(library):
    make_step = step_of_ours if library == "tfdml" else step_of_theirs
    steps = {}
    for line in sys.stdin:
        question = json.loads(line)
        case = question["loss"], question["size"], question["dim"], question["jit_compile"]
        if case not in steps:
            steps = {case: make_step(*case)}
            steps[case]()
        before = reset_peak()
        clocks = {"seconds": time.perf_counter, "cpu_seconds": time.process_time}
        began = {name: clock() for name, clock in clocks.items()}
        for _ in range(question["repeats"]):
            steps[case]()
        answer = {name: (clock() - began[name]) / question["repeats"] for name, clock in clocks.items()}
        print(json.dumps({**answer, "peak_mib": (peak() - before) / MIB}), flush=True)
