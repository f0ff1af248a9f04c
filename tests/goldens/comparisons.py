"""Which of our losses stands beside which golden, and how the one number of a batch comes of our `[B]`.

The others give one number a batch. Where theirs is not the mean over anchors, it is a sum of our values with weights
that are told here; where it is something else, `DIFFER` tells what. Runs on any Keras backend.
"""

import json
from functools import cache
from pathlib import Path

import numpy as np
from keras import ops

BATCHES = ("pk", "uneven", "pairs")


@cache
def read(name):
    """The content of a JSON file beside this one."""
    return json.loads(Path(__file__).with_name(f"{name}.json").read_text())


# What the embeddings are before the loss gets them.


def as_they_are(embeddings):
    return embeddings


def units(embeddings):
    return embeddings / ops.norm(embeddings, axis=1, keepdims=True)


# Weights of anchors: functions of labels `[B]`, distances at unit length `[B, B]` and our values `[B]`.


def masks(labels):
    same = labels[:, None] == labels[None, :]
    return same & ~np.eye(len(labels), dtype=bool), ~same


def mean(labels, distance, values):
    return np.full(len(labels), 1 / len(labels))


def total(labels, distance, values):
    return np.ones(len(labels))


def of_pairs(labels, distance, values):
    """The mean over positive pairs, where our values are means of an anchor's."""
    count = masks(labels)[0].sum(axis=1)
    return count / count.sum()


def of_triplets(labels, distance, values):
    """The mean over triplets, where our values are means of an anchor's."""
    count = np.prod([mask.sum(axis=1) for mask in masks(labels)], axis=0)
    return count / count.sum()


def of_active_triplets(labels, distance, values):
    """As before, but over triplets with a loss above 0, the margin being 0.05."""
    positives, negatives = masks(labels)
    hinge = distance[:, :, None] - distance[:, None, :] + 0.05
    active = np.sum(positives[:, :, None] & negatives[:, None, :] & (hinge > 0))
    return np.prod([mask.sum(axis=1) for mask in (positives, negatives)], axis=0) / active


def of_positives(labels, distance, values):
    """The mean over positive pairs, where our values are sums of an anchor's."""
    return np.full(len(labels), 1 / masks(labels)[0].sum())


def of_active_negatives(labels, distance, values):
    """The mean over negative pairs nearer than 1, where our values are sums of an anchor's."""
    return np.full(len(labels), 1 / np.sum(masks(labels)[1] & (distance < 1)))


def of_active(labels, distance, values):
    """The mean over anchors whose loss is above 0."""
    return (values > 0) / np.sum(values > 0)


def of_anchors_with_a_positive(labels, distance, values):
    """The mean over anchors that have a positive; all others' losses are 0."""
    has = masks(labels)[0].any(axis=1)
    return has / has.sum()


def of_first_rows(labels, distance, values):
    """The mean over the first rows of classes of two rows or more."""
    first = np.isin(np.arange(len(labels)), np.unique(labels, return_index=True)[1])
    first &= masks(labels)[0].any(axis=1)
    return first / first.sum()


# Name of the golden: our spec, what the embeddings are before, weights; or several such, of which it is the sum.
ALL_ALIKE = "differentiate_weights=True, differentiate_gallery=True"
AGREE = {
    "contrastive": [
        ("contrastive(margin=0.0, squared_positives=False)", units, of_positives),
        ("contrastive(margin=1.0, positive_margin=9.0)", units, of_active_negatives),
    ],
    "contrastive_sum": ("contrastive(margin=1.1, positive_margin=0.3, squared_positives=False)", units, total),
    "triplet": ("triplet(margin=0.05, mining='all', squared=False)", units, of_active_triplets),
    "triplet_all": ("triplet(margin=0.2, mining='all', squared=False)", units, of_triplets),
    "triplet_all_squared": ("triplet(margin=0.2, mining='all')", units, of_triplets),
    "triplet_batch_hard": (
        "triplet(margin=0.2, mining='batch_hard', squared=False)",
        units,
        of_anchors_with_a_positive,
    ),
    "margin": ("margin(mining='all')", units, mean),
    "margin_per_class": ("margin(mining='all', learn_beta='per_class', nu=0.05, classes=7)", units, mean),
    "lifted_structure": ("lifted_structure(normalize=True)", as_they_are, mean),
    "lifted_structure_as_it_is": ("lifted_structure", as_they_are, mean),
    "n_pairs": ("n_pair(negatives='one_per_class', normalize=True)", as_they_are, of_first_rows),
    "n_pairs_as_it_is": ("n_pair(negatives='one_per_class')", as_they_are, of_first_rows),
    "nt_xent": ("nt_xent(temperature=0.2)", as_they_are, of_pairs),
    "nt_xent_sharp": ("nt_xent(temperature=0.07)", as_they_are, of_pairs),
    "smooth_ap": ("smooth_ap(include_query=True)", as_they_are, mean),
    "smooth_ap_warm": ("smooth_ap(temperature=0.1, include_query=True)", as_they_are, mean),
    "multi_similarity": ("multi_similarity(base=0.5, mining=False)", as_they_are, mean),
    "multi_similarity_mined": ("multi_similarity(beta=40.0, base=0.5)", as_they_are, mean),
    "circle": ("circle", as_they_are, of_active),
    "circle_faces": ("circle(margin=0.25, scale=256.0)", as_they_are, of_active),
    "angular_of_units": ("angular", as_they_are, of_pairs),
    "histogram": ("histogram", as_they_are, mean),
    "histogram_20": ("histogram(bins=20)", as_they_are, mean),
    "fast_ap": ("fast_ap", as_they_are, of_anchors_with_a_positive),
    "fast_ap_25": ("fast_ap(bins=25)", as_they_are, of_anchors_with_a_positive),
    "sup_con": ("sup_con", as_they_are, of_active),
    "sup_con_warm": ("sup_con(temperature=0.5)", as_they_are, of_active),
    "proxy_nca": ("proxy_nca(classes=7, exclude_positive=False)", as_they_are, mean),
    "proxy_nca_sharp": ("proxy_nca(classes=7, scale=8.0, exclude_positive=False)", as_they_are, mean),
    "normalized_softmax": ("norm_softmax(classes=7)", as_they_are, mean),
    # Theirs has no term that merges centers; ours is a regulariser of the layer, which is not in these values.
    "soft_triple": ("soft_triple(classes=7, per_class=2)", as_they_are, mean),
    "proxy_anchor": ("proxy_anchor(classes=7)", as_they_are, mean),
    "arc_face": ("arc_face(classes=7)", as_they_are, mean),
    "sub_center_arc_face": ("sub_center_arc_face(classes=7, per_class=2)", as_they_are, mean),
    "cos_face": ("cos_face(classes=7)", as_they_are, mean),
}
# Where they agree but for a small term: the relative difference that it makes at most, and why.
NEARLY = {
    # 1e-5 is added to each of the B weights of a list before their sum divides; a list has a weight of 1 or more.
    "ranked_list": (f"ranked_list({ALL_ALIKE})", units, mean, 2e-4),
    "ranked_list_full": (
        "ranked_list(alpha=1.3, margin=0.3, positive_temperature=2.0, negative_temperature=4.0, balance=0.3, "
        f"{ALL_ALIKE})",
        units,
        mean,
        2e-4,
    ),
}
# Batches on which they do not agree, and why; see test_where_definitions_differ.
DIFFER = {
    # Pairs of two rows neither of which has a positive are left out.
    "histogram": ("histogram", as_they_are, mean, ["uneven"]),
    "histogram_20": ("histogram(bins=20)", as_they_are, mean, ["uneven"]),
    # Negatives keep their length, against the paper's f, which is derived for unit length; at unit length the value is
    # ours, but the gradient changes that length.
    "angular": ("angular(alpha=40.0)", as_they_are, of_pairs, BATCHES),
    # It divides the batch into B / C classes of C rows each, C being the number of classes: right only where a class
    # has as many rows as there are classes, as in `pk`.
    "smooth_ap": ("smooth_ap(include_query=True)", as_they_are, mean, ["pairs"]),
    "smooth_ap_warm": ("smooth_ap(temperature=0.1, include_query=True)", as_they_are, mean, ["pairs"]),
    # All triplets whose negative is farther than the positive by less than the margin, not one for each pair.
    "triplet_semi_hard": ("triplet(margin=0.2, squared=False)", units, mean, BATCHES),
    # Affinities are exp(2 max(0, cos)), where the paper has the cosines; degrees do not count a node itself; proxies
    # less similar than the own one by the margin are left out of the sum.
    "manifold_intrinsic": ("intrinsic_manifold(classes=7)", as_they_are, mean, BATCHES),
    # These, and cosines of what a row and a proxy see of all rows and proxies, where the paper has products of what
    # they see of proxies.
    "manifold_both": [
        ("intrinsic_manifold(classes=7, margin=0.01, restart=0.6)", as_they_are, mean, BATCHES),
        ("contextual_manifold(classes=7, margin=0.01, restart=0.6)", as_they_are, mean, BATCHES),
    ],
}
# The same for TensorFlow Addons, with the batches on which they agree.
SAME_AS_ADDONS = {
    "triplet_semihard": ("triplet(margin=1.0, squared=False)", as_they_are, of_pairs, BATCHES),
    "triplet_semihard_squared": ("triplet(margin=0.3)", as_they_are, of_pairs, BATCHES),
    "lifted_struct": ("lifted_structure", as_they_are, mean, BATCHES),
    "lifted_struct_margin": ("lifted_structure(margin=0.4)", as_they_are, mean, BATCHES),
    # Theirs takes anchors without a positive, too, which `uneven` has: their distance to the nearest negative.
    "triplet_hard": ("triplet(margin=1.0, mining='batch_hard', squared=False)", as_they_are, mean, ("pk", "pairs")),
    "triplet_hard_squared": ("triplet(margin=0.3, mining='batch_hard')", as_they_are, mean, ("pk", "pairs")),
}


def terms_of(entry):
    """Every entry of a table as a list of `(spec, prepare, weigh)`."""
    return [term[:3] for term in (entry if isinstance(entry, list) else [entry])]


def batches_of(name):
    """Batches on which the definitions differ, and those on which they agree, of those that the golden has."""
    entry = DIFFER.get(name)
    differ = [] if entry is None else entry[0][3] if isinstance(entry, list) else entry[3]
    return list(differ), [which for which in read("pytorch_metric_learning")[name] if which not in differ]


def stored(shape, batch):
    """What inputs.json has for the weight of a layer, which has this shape."""
    kind = "betas" if len(shape) == 1 else "proxies" if shape[0] == 7 else "centers"
    return np.reshape(batch[kind], shape)


def weights_of(weigh, batch, values):
    """A function of the tables on a batch of inputs.json and our values on it: weights `[B]`."""
    rows = np.array(batch["embeddings"])
    rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    distance = np.linalg.norm(rows[:, None] - rows[None], axis=-1)
    return weigh(np.array(batch["labels"]), distance, np.asarray(values))
