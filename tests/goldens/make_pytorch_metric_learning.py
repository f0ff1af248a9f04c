"""Writes pytorch_metric_learning.json: values and gradients of pytorch-metric-learning 2.9.0 with torch 2.13.0.

In an environment of its own, or with the extra `oracles` of setup.py:

    pip install torch==2.13.0 pytorch-metric-learning==2.9.0
    python tests/goldens/make_pytorch_metric_learning.py

For each loss and each batch of inputs.json, computed in float64: `value`, the number that the loss returns;
`gradient`, of it with respect to the embeddings `[B, d]`; and, where the loss has weights, `weights_gradient`, laid out
as they are in inputs.json.
"""

import json
import math
from pathlib import Path

import torch
from pytorch_metric_learning import losses, miners
from pytorch_metric_learning.distances import CosineSimilarity, DotProductSimilarity, LpDistance, SNRDistance
from pytorch_metric_learning.reducers import AvgNonZeroReducer, MeanReducer, PerAnchorReducer, SumReducer

HERE = Path(__file__).parent
CLASSES, CENTERS = 7, 2


def as_it_is():
    return LpDistance(normalize_embeddings=False)


def squared():
    return LpDistance(power=2)


class DynamicSoftMargin(losses.DynamicSoftMarginLoss):
    """Its first step. The histogram is a constant for the gradient, as in the paper."""

    def update_histogram(self, data):
        super().update_histogram(data.detach())


def contrastive(**arguments):
    return lambda: losses.ContrastiveLoss(0.3, 1.1, **arguments)


def triplet(**arguments):
    return lambda: losses.TripletMarginLoss(0.2, **arguments)


def easy_hard(positives, negatives):
    return lambda: miners.BatchEasyHardMiner(positives, negatives)


# Name: what makes the loss, and the miner. A name without more to it is the loss as its defaults have it. Those of
# OF_UNITS get the embeddings at unit length, beforehand.
OF_UNITS = ("angular_of_units", "triplet_angular", "contrastive_angular")
FORMS = ("O", "Ds", "Dq", "Iu", "Ib")
# These take classes of one size alone, which those of the batch `uneven` are not.
OF_EVEN_CLASSES = ("smooth_ap", "smooth_ap_warm")
# Of these there is no triplet in the batch `pairs`.
OF_NO_PAIRS = ("triplet_margin_hard",)
PAIRS = {
    "contrastive": (lambda: losses.ContrastiveLoss(), None),
    "contrastive_sum": (lambda: losses.ContrastiveLoss(0.3, 1.1, reducer=SumReducer()), None),
    "triplet": (lambda: losses.TripletMarginLoss(), None),
    "triplet_all": (lambda: losses.TripletMarginLoss(0.2, reducer=MeanReducer()), None),
    "triplet_all_squared": (lambda: losses.TripletMarginLoss(0.2, distance=squared(), reducer=MeanReducer()), None),
    "triplet_semi_hard": (
        lambda: losses.TripletMarginLoss(0.2),
        lambda: miners.TripletMarginMiner(0.2, type_of_triplets="semihard"),
    ),
    "triplet_batch_hard": (lambda: losses.TripletMarginLoss(0.2, reducer=MeanReducer()), miners.BatchHardMiner),
    "margin": (lambda: losses.MarginLoss(), None),
    "lifted_structure": (lambda: losses.LiftedStructureLoss(), None),
    "lifted_structure_as_it_is": (lambda: losses.LiftedStructureLoss(distance=as_it_is()), None),
    "n_pairs": (lambda: losses.NPairsLoss(), None),
    "n_pairs_as_it_is": (lambda: losses.NPairsLoss(distance=DotProductSimilarity(normalize_embeddings=False)), None),
    "nt_xent": (lambda: losses.NTXentLoss(temperature=0.2), None),
    "nt_xent_sharp": (lambda: losses.NTXentLoss(), None),
    "smooth_ap": (lambda: losses.SmoothAPLoss(), None),
    "smooth_ap_warm": (lambda: losses.SmoothAPLoss(temperature=0.1), None),
    "ranked_list": (lambda: losses.RankedListLoss(margin=0.4, Tn=10), None),
    "ranked_list_full": (lambda: losses.RankedListLoss(margin=0.3, Tn=4, imbalance=0.3, alpha=1.3, Tp=2), None),
    "multi_similarity": (lambda: losses.MultiSimilarityLoss(), None),
    "multi_similarity_mined": (lambda: losses.MultiSimilarityLoss(2, 40, 0.5), miners.MultiSimilarityMiner),
    "circle": (lambda: losses.CircleLoss(), None),
    "circle_faces": (lambda: losses.CircleLoss(m=0.25, gamma=256), None),
    "angular": (lambda: losses.AngularLoss(), None),
    "angular_of_units": (lambda: losses.AngularLoss(alpha=45), None),
    "histogram": (lambda: losses.HistogramLoss(), None),
    "histogram_20": (lambda: losses.HistogramLoss(n_bins=20), None),
    "fast_ap": (lambda: losses.FastAPLoss(), None),
    "fast_ap_25": (lambda: losses.FastAPLoss(num_bins=25), None),
    "sup_con": (lambda: losses.SupConLoss(), None),
    "sup_con_warm": (lambda: losses.SupConLoss(temperature=0.5), None),
    "dynamic_soft_margin": (DynamicSoftMargin, None),
    "generalized_lifted": (lambda: losses.GeneralizedLiftedStructureLoss(), None),
    "intra_pair_variance": (lambda: losses.IntraPairVarianceLoss(), None),
    "intra_pair_variance_wide": (lambda: losses.IntraPairVarianceLoss(0.2, 0.1), None),
    "nca": (lambda: losses.NCALoss(), None),
    "nca_sharp": (lambda: losses.NCALoss(softmax_scale=4), None),
    **{f"pnp_{form}": (lambda form=form: losses.PNPLoss(anneal=0.1, variant=form), None) for form in FORMS},
    "signal_to_noise": (lambda: losses.SignalToNoiseRatioContrastiveLoss(), None),
    "tuplet_margin": (lambda: losses.TupletMarginLoss(math.degrees(0.1)), None),
    "triplet_swap": (triplet(swap=True), None),
    "triplet_smooth": (triplet(smooth_loss=True), None),
    "triplet_smooth_swap": (triplet(smooth_loss=True, swap=True, reducer=MeanReducer()), None),
    # Reducers.
    "contrastive_mean": (contrastive(reducer=MeanReducer()), None),
    "contrastive_nonzero": (contrastive(reducer=AvgNonZeroReducer()), None),
    "contrastive_per_anchor": (contrastive(reducer=PerAnchorReducer()), None),
    "triplet_sum": (triplet(reducer=SumReducer()), None),
    "nt_xent_nonzero": (lambda: losses.NTXentLoss(reducer=AvgNonZeroReducer()), None),
    "nt_xent_per_anchor": (lambda: losses.NTXentLoss(reducer=PerAnchorReducer()), None),
    # Distances.
    "contrastive_cosine": (lambda: losses.ContrastiveLoss(0.9, 0.3, distance=CosineSimilarity()), None),
    "contrastive_manhattan": (contrastive(distance=LpDistance(p=1, normalize_embeddings=False)), None),
    "triplet_cubed": (triplet(distance=LpDistance(p=3, power=3, normalize_embeddings=False)), None),
    "triplet_cosine": (triplet(distance=CosineSimilarity()), None),
    "triplet_dot": (triplet(distance=DotProductSimilarity(normalize_embeddings=False)), None),
    "triplet_signal_to_noise": (triplet(distance=SNRDistance()), None),
    # Miners.
    **{
        f"triplet_margin_{kind}": (triplet(), lambda kind=kind: miners.TripletMarginMiner(0.2, type_of_triplets=kind))
        for kind in ("all", "hard", "semihard")
    },
    "triplet_angular": (triplet(), lambda: miners.AngularMiner(15)),
    "triplet_hdc": (triplet(), lambda: miners.HDCMiner(0.5)),
    "contrastive_hdc": (contrastive(reducer=MeanReducer()), lambda: miners.HDCMiner(0.5)),
    "contrastive_pair_margin": (contrastive(reducer=MeanReducer()), lambda: miners.PairMarginMiner(0.5, 1.0)),
    "contrastive_angular": (contrastive(reducer=MeanReducer()), lambda: miners.AngularMiner(15)),
    "triplet_multi_similarity": (triplet(distance=CosineSimilarity()), lambda: miners.MultiSimilarityMiner(0.2)),
    **{
        f"triplet_{positives}_{negatives}": (triplet(smooth_loss=True), easy_hard(positives, negatives))
        for positives in ("all", "easy", "semihard", "hard")
        for negatives in ("all", "easy", "semihard", "hard")
        if "semihard" not in (positives, negatives) or {positives, negatives} <= {"semihard", "easy", "hard"}
        if (positives, negatives) != ("semihard", "semihard")
    },
}

# Name: what makes the loss of a dimension, the name of its weights, where these are in inputs.json, and how they are
# laid out there as torch has them.
ROWS, COLUMNS = "rows", "columns"
WEIGHTED = {
    "margin_per_class": (
        lambda dim: losses.MarginLoss(nu=0.05, learn_beta=True, num_classes=CLASSES),
        "beta",
        "betas",
        ROWS,
    ),
    "proxy_nca": (lambda dim: losses.ProxyNCALoss(CLASSES, dim), "proxies", "proxies", ROWS),
    "proxy_nca_sharp": (lambda dim: losses.ProxyNCALoss(CLASSES, dim, softmax_scale=8), "proxies", "proxies", ROWS),
    "normalized_softmax": (lambda dim: losses.NormalizedSoftmaxLoss(CLASSES, dim), "W", "proxies", COLUMNS),
    "soft_triple": (
        lambda dim: losses.SoftTripleLoss(CLASSES, dim, centers_per_class=CENTERS),
        "fc",
        "centers",
        COLUMNS,
    ),
    "proxy_anchor": (lambda dim: losses.ProxyAnchorLoss(CLASSES, dim), "proxies", "proxies", ROWS),
    "arc_face": (lambda dim: losses.ArcFaceLoss(CLASSES, dim, margin=math.degrees(0.5)), "W", "proxies", COLUMNS),
    "sub_center_arc_face": (
        lambda dim: losses.SubCenterArcFaceLoss(
            num_classes=CLASSES, embedding_size=dim, margin=math.degrees(0.5), sub_centers=CENTERS
        ),
        "W",
        "centers",
        COLUMNS,
    ),
    "cos_face": (lambda dim: losses.CosFaceLoss(CLASSES, dim), "W", "proxies", COLUMNS),
    "sphere_face": (lambda dim: losses.SphereFaceLoss(CLASSES, dim), "W", "proxies", COLUMNS),
    "large_margin_softmax": (
        lambda dim: losses.LargeMarginSoftmaxLoss(CLASSES, dim, margin=3, scale=2),
        "W",
        "proxies",
        COLUMNS,
    ),
    "p2s_grad": (lambda dim: losses.P2SGradLoss(dim, CLASSES), "weight", "proxies", COLUMNS),
    "manifold_intrinsic": (
        lambda dim: losses.ManifoldLoss(dim, K=CLASSES, lambdaC=0.0),
        "proxies",
        "proxies",
        ROWS,
    ),
    "manifold_both": (
        lambda dim: losses.ManifoldLoss(dim, K=CLASSES, lambdaC=1.0, margin=0.01, alpha=0.6),
        "proxies",
        "proxies",
        ROWS,
    ),
}


def tensor(values):
    return torch.tensor(values, dtype=torch.float64)


def rounded(tensor):
    return [rounded(part) for part in tensor] if tensor.ndim else float(f"{tensor.item():.11g}")


def of_pairs(make, make_miner, batch, units):
    labels, embeddings = torch.tensor(batch["labels"]), tensor(batch["embeddings"]).requires_grad_()
    taken = torch.nn.functional.normalize(embeddings) if units else embeddings
    mined = make_miner()(taken, labels) if make_miner else None
    value = make()(taken, labels, mined)
    value.backward()
    return {"value": rounded(value.detach()), "gradient": rounded(embeddings.grad)}


def of_weights(make, attribute, stored, layout, batch):
    labels, embeddings = torch.tensor(batch["labels"]), tensor(batch["embeddings"]).requires_grad_()
    loss, weights = make(embeddings.shape[1]), tensor(batch[stored])
    laid_out = weights.reshape(-1, embeddings.shape[1]) if weights.ndim > 1 else weights
    parameter = torch.nn.Parameter(laid_out.T.contiguous() if layout == COLUMNS else laid_out)
    setattr(loss, attribute, parameter)
    # The manifold loss takes classes in place of mined pairs.
    manifold = isinstance(loss, losses.ManifoldLoss)
    value = loss(embeddings, indices_tuple=labels) if manifold else loss(embeddings, labels)
    value = value.squeeze()
    value.backward()
    found = {"value": rounded(value.detach()), "gradient": rounded(embeddings.grad)}
    # This loss changes the length of its weights outside of the gradient.
    if isinstance(loss, losses.P2SGradLoss):
        return found
    gradient = parameter.grad.T if layout == COLUMNS else parameter.grad
    return {**found, "weights_gradient": rounded(gradient.reshape(weights.shape))}


def main():
    inputs = json.loads((HERE / "inputs.json").read_text())
    batches = {name: batch for name, batch in inputs.items() if "embeddings" in batch}
    goldens = {}
    for name, made in PAIRS.items():
        left_out = {"uneven": OF_EVEN_CLASSES, "pairs": OF_NO_PAIRS}
        taken = {which: each for which, each in batches.items() if name not in left_out.get(which, ())}
        goldens[name] = {which: of_pairs(*made, batch, name in OF_UNITS) for which, batch in taken.items()}
    for name, made in WEIGHTED.items():
        goldens[name] = {which: of_weights(*made, batch) for which, batch in batches.items()}
    lines = [f"{json.dumps(name)}: {json.dumps(golden)}" for name, golden in goldens.items()]
    (HERE / "pytorch_metric_learning.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
