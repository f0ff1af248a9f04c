"""Measures losses of one library for `losses`: reads a JSON question per line and prints a JSON answer per line."""

import json
import sys
import time

import numpy as np

from benchmarks.speed.losses_steps import OnTorch, on_torch_device, step_of_ours
from benchmarks.speed.peak_memory import MIB

CLASSES = 512

LINEAR = "contrastive(squared_positives=False, mean='nonzero'"
TRIPLET = "triplet(distance='euclidean', margin=0.2"

# Name, our spec, and the equivalent in pytorch-metric-learning, if it exists.
OURS = {
    "angular": "angular",
    "arc_face": f"arc_face(classes={CLASSES})",
    "circle": "circle",
    "contrastive": "contrastive",
    "cos_face": f"cos_face(classes={CLASSES})",
    "contrastive hdc": f"{LINEAR}, mining='hdc')",
    "contrastive lp": f"{LINEAR}, distance='lp')",
    "contrastive pair_margin": f"{LINEAR}, mining='pair_margin')",
    "contrastive signal_to_noise": f"{LINEAR}, distance='signal_to_noise')",
    "contrastive uniform_histogram": f"{LINEAR}, mining='uniform_histogram')",
    "fast_ap": "fast_ap",
    "histogram": "histogram",
    "intra_pair_variance": "intra_pair_variance",
    "intrinsic_manifold": f"intrinsic_manifold(classes={CLASSES})",
    "large_margin_softmax": f"large_margin_softmax(classes={CLASSES})",
    "lifted_structure": "lifted_structure",
    "lifted_structure generalized": "lifted_structure(form='generalized', mean='anchors')",
    "margin": "margin(mining='all')",
    "multi_similarity": "multi_similarity",
    "n_pair": "n_pair",
    "n_pair first_pair_per_class": "n_pair(negatives='first_pair_per_class', normalize=True)",
    "norm_softmax": f"norm_softmax(classes={CLASSES})",
    "nca": "nca",
    "nt_xent": "nt_xent",
    "p2s_grad": f"p2s_grad(classes={CLASSES})",
    "pnp": "pnp",
    "proxy_anchor": f"proxy_anchor(classes={CLASSES})",
    "proxy_nca": f"proxy_nca(classes={CLASSES})",
    "ranked_list": "ranked_list",
    "smooth_ap": "smooth_ap",
    "soft_triple": f"soft_triple(classes={CLASSES})",
    "sphere_face": f"sphere_face(classes={CLASSES})",
    "sub_center_arc_face": f"sub_center_arc_face(classes={CLASSES})",
    "sup_con": "sup_con",
    "triplet all": "triplet(mining='all', distance='euclidean')",
    "triplet semi_hard": "triplet(mining='semi_hard', distance='euclidean')",
    "triplet batch_hard": "triplet(mining='batch_hard', distance='euclidean')",
    "triplet angular": f"{TRIPLET}, mining='angular', mean='nonzero')",
    "triplet distance_weighted": f"{TRIPLET}, mining='distance_weighted', mean='nonzero')",
    "triplet dynamic": f"{TRIPLET}, mining='all', mean='pairs', form='dynamic')",
    "triplet easy_hard": f"{TRIPLET}, mining='easy_hard', mean='nonzero')",
    "triplet nonzero": f"{TRIPLET}, mining='all', mean='nonzero')",
    "triplet smooth": f"{TRIPLET}, mining='all', mean='nonzero', form='smooth')",
    "triplet swap": f"{TRIPLET}, mining='all', mean='nonzero', swap=True)",
    "triplet triplet_margin": f"{TRIPLET}, mining=\"triplet_margin(kind='semi_hard')\", mean='nonzero')",
    "tuplet_margin": "tuplet_margin",
}
THEIRS = {
    "angular": ("AngularLoss", None),
    "arc_face": ("ArcFaceLoss", None),
    "circle": ("CircleLoss", None),
    "contrastive": ("ContrastiveLoss", None),
    "cos_face": ("CosFaceLoss", None),
    "contrastive hdc": ("ContrastiveLoss", "HDCMiner"),
    "contrastive lp": ("ContrastiveLoss", None),
    "contrastive pair_margin": ("ContrastiveLoss", "PairMarginMiner"),
    "contrastive signal_to_noise": ("SignalToNoiseRatioContrastiveLoss", None),
    "contrastive uniform_histogram": ("ContrastiveLoss", "UniformHistogramMiner"),
    "fast_ap": ("FastAPLoss", None),
    "histogram": ("HistogramLoss", None),
    "intra_pair_variance": ("IntraPairVarianceLoss", None),
    "intrinsic_manifold": ("ManifoldLoss", None),
    "large_margin_softmax": ("LargeMarginSoftmaxLoss", None),
    "lifted_structure": ("LiftedStructureLoss", None),
    "lifted_structure generalized": ("GeneralizedLiftedStructureLoss", None),
    "margin": ("MarginLoss", None),
    "multi_similarity": ("MultiSimilarityLoss", "MultiSimilarityMiner"),
    "n_pair": ("NPairsLoss", None),
    "n_pair first_pair_per_class": ("NPairsLoss", None),
    "norm_softmax": ("NormalizedSoftmaxLoss", None),
    "nca": ("NCALoss", None),
    "nt_xent": ("NTXentLoss", None),
    "p2s_grad": ("P2SGradLoss", None),
    "pnp": ("PNPLoss", None),
    "proxy_anchor": ("ProxyAnchorLoss", None),
    "proxy_nca": ("ProxyNCALoss", None),
    "ranked_list": ("RankedListLoss", None),
    "smooth_ap": ("SmoothAPLoss", None),
    "soft_triple": ("SoftTripleLoss", None),
    "sphere_face": ("SphereFaceLoss", None),
    "sub_center_arc_face": ("SubCenterArcFaceLoss", None),
    "sup_con": ("SupConLoss", None),
    "triplet all": ("TripletMarginLoss", None),
    "triplet semi_hard": ("TripletMarginLoss", "TripletMarginMiner"),
    "triplet batch_hard": ("TripletMarginLoss", "BatchHardMiner"),
    "triplet angular": ("TripletMarginLoss", "AngularMiner"),
    "triplet distance_weighted": ("TripletMarginLoss", "DistanceWeightedMiner"),
    "triplet dynamic": ("DynamicSoftMarginLoss", None),
    "triplet easy_hard": ("TripletMarginLoss", "BatchEasyHardMiner"),
    "triplet nonzero": ("TripletMarginLoss", None),
    "triplet smooth": ("TripletMarginLoss", None),
    "triplet swap": ("TripletMarginLoss", None),
    "triplet triplet_margin": ("TripletMarginLoss", "TripletMarginMiner"),
    "tuplet_margin": ("TupletMarginLoss", None),
}


def batch(size, dim):
    embeddings = np.random.default_rng(0).normal(size=(size, dim)).astype(np.float32)
    embeddings /= np.linalg.norm(embeddings, axis=1, keepdims=True)
    return np.arange(size) // 4 % CLASSES, embeddings


def step_of_theirs(name, labels, embeddings, device):
    """Returns a step of pytorch-metric-learning with the same loss."""
    from pytorch_metric_learning import distances, losses, miners

    size, dim = embeddings.shape
    loss_name, miner_name = THEIRS[name]
    arguments = {"triplet smooth": {"smooth_loss": True}, "triplet swap": {"swap": True}}.get(name, {})
    if name == "contrastive lp":
        arguments = {"distance": distances.LpDistance(p=1)}
    elif name == "p2s_grad":
        arguments = {"num_classes": CLASSES, "descriptors_dim": dim}
    elif OURS[name].endswith(f"classes={CLASSES})") and loss_name != "ManifoldLoss":
        arguments = {"num_classes": CLASSES, "embedding_size": dim}
    elif loss_name == "ManifoldLoss":
        # pytorch-metric-learning does not accept more classes than rows.
        arguments = {"l": dim, "K": min(CLASSES, size // 4)}
    elif loss_name == "RankedListLoss":
        arguments = {"margin": 0.4, "Tn": 10}
    loss = getattr(losses, loss_name)(**arguments)
    if miner_name == "TripletMarginMiner":
        miner = miners.TripletMarginMiner(margin=0.2, type_of_triplets="semihard")
    else:
        miner = getattr(miners, miner_name)() if miner_name else None
    labels, embeddings = on_torch_device(labels, embeddings, device)
    loss.to(labels.device)

    def value():
        if loss_name == "DynamicSoftMarginLoss":
            # The histogram of the last step belongs to a graph that no longer exists.
            loss.hist_ = loss.hist_.detach()
        # The loss of pytorch-metric-learning does not use labels, because it draws meta-classes itself.
        given = () if loss_name == "ManifoldLoss" else (labels, miner(embeddings, labels) if miner else None)
        return loss(embeddings, *given)

    return OnTorch(value, [embeddings, *loss.parameters()], device)


def make_step(library, loss, size, dim, backend, device, jit_compile):
    if library == "tfdml":
        return step_of_ours(OURS[loss], *batch(size, dim), backend, device, jit_compile)
    return step_of_theirs(loss, *batch(size, dim), device)


def main(library):
    step = known = None
    for line in sys.stdin:
        question = json.loads(line)
        repeats, case = question.pop("repeats"), question
        if case != known:
            step = None
            step, known = make_step(library, **case), case
            step()
        step.wait()
        before = step.reset_peak()
        clocks = {"seconds": time.perf_counter, "cpu_seconds": time.process_time}
        began = {name: clock() for name, clock in clocks.items()}
        for _ in range(repeats):
            step()
        step.wait()
        answer = {name: (clock() - began[name]) / repeats for name, clock in clocks.items()}
        print(json.dumps({**answer, "peak_mib": (step.peak() - before) / MIB}), flush=True)
