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


def of_first_rows(labels, distance, values):
    """The mean over the first rows of classes of two rows or more."""
    first = np.isin(np.arange(len(labels)), np.unique(labels, return_index=True)[1])
    first &= masks(labels)[0].any(axis=1)
    return first / first.sum()


# Name of the golden: our spec, what the embeddings are before, weights; or several such, of which it is the sum.
ALL_ALIKE = "differentiate_weights=True, differentiate_gallery=True"
LINEAR = "contrastive(squared_positives=False"
TRIPLET = "triplet(distance='euclidean'"
GENERALIZED = "lifted_structure(form='generalized', normalize=True, mean='anchors')"
FORMS = ("O", "Ds", "Dq", "Iu", "Ib")
STRATEGIES = {"all": "all", "easy": "easy", "semihard": "semi_hard", "hard": "hard"}
AGREE = {
    "contrastive": (f"{LINEAR}, mean='nonzero')", units, mean),
    "contrastive_sum": (f"{LINEAR}, margin=1.1, positive_margin=0.3)", units, total),
    "contrastive_mean": (f"{LINEAR}, margin=1.1, positive_margin=0.3, mean='pairs')", units, mean),
    "contrastive_nonzero": (f"{LINEAR}, margin=1.1, positive_margin=0.3, mean='nonzero')", units, mean),
    "contrastive_per_anchor": (f"{LINEAR}, margin=1.1, positive_margin=0.3, mean='anchors')", units, mean),
    # A cosine of 0.9 and of 0.3 is a distance of 0.1 and of 0.7.
    "contrastive_cosine": (
        f"{LINEAR}, margin=0.7, positive_margin=0.1, mean='nonzero', distance='cosine')",
        as_they_are,
        mean,
    ),
    "contrastive_manhattan": (
        f"{LINEAR}, margin=1.1, positive_margin=0.3, mean='nonzero', distance='lp(p=1)')",
        as_they_are,
        mean,
    ),
    "signal_to_noise": (f"{LINEAR}, mean='nonzero', distance='signal_to_noise')", units, mean),
    "triplet": (f"{TRIPLET}, margin=0.05, mining='all', mean='nonzero')", units, mean),
    "triplet_all": (f"{TRIPLET}, mining='all', mean='pairs')", units, mean),
    "triplet_all_squared": ("triplet(mining='all', mean='pairs')", units, mean),
    "triplet_sum": (f"{TRIPLET}, mining='all', mean='none')", units, total),
    "triplet_batch_hard": (f"{TRIPLET}, mining='batch_hard', mean='pairs')", units, mean),
    "triplet_swap": (f"{TRIPLET}, mining='all', mean='nonzero', swap=True)", units, mean),
    "triplet_smooth": (f"{TRIPLET}, mining='all', mean='nonzero', form='smooth')", units, mean),
    "triplet_smooth_swap": (f"{TRIPLET}, mining='all', mean='pairs', form='smooth', swap=True)", units, mean),
    "triplet_semi_hard": (f"{TRIPLET}, mining=\"triplet_margin(kind='semi_hard')\", mean='nonzero')", units, mean),
    "dynamic_soft_margin": (f"{TRIPLET}, mining='all', mean='pairs', form='dynamic')", units, mean),
    "triplet_cubed": (
        "triplet(mining='all', mean='nonzero', distance='lp(p=3, power=True)')",
        as_they_are,
        mean,
    ),
    "triplet_cosine": ("triplet(mining='all', mean='nonzero', distance='cosine')", as_they_are, mean),
    "triplet_dot": ("triplet(mining='all', mean='nonzero', distance='dot')", as_they_are, mean),
    "triplet_signal_to_noise": ("triplet(mining='all', mean='nonzero', distance='signal_to_noise')", units, mean),
    **{
        f"triplet_margin_{theirs}": (
            f"{TRIPLET}, mining=\"triplet_margin(kind='{ours}')\", mean='nonzero')",
            units,
            mean,
        )
        for theirs, ours in (("all", "all"), ("hard", "hard"), ("semihard", "semi_hard"))
    },
    "triplet_angular": (f"{TRIPLET}, mining='angular(angle=15)', mean='nonzero')", units, mean),
    "triplet_hdc": (f"{TRIPLET}, mining='hdc(share=0.5)', mean='nonzero')", units, mean),
    "triplet_multi_similarity": (
        "triplet(mining='multi_similarity(epsilon=0.2)', mean='nonzero', distance='cosine')",
        as_they_are,
        mean,
    ),
    **{
        f"triplet_{p}_{n}": (
            f"{TRIPLET}, mean='nonzero', form='smooth', mining=\"easy_hard(positives='{ours}', negatives='{other}')\")",
            units,
            mean,
        )
        for p, ours in STRATEGIES.items()
        for n, other in STRATEGIES.items()
        if "semihard" not in (p, n) or (p != n and "all" not in (p, n))
    },
    "contrastive_hdc": (
        f"{LINEAR}, margin=1.1, positive_margin=0.3, mean='pairs', mining='hdc(share=0.5)')",
        units,
        mean,
    ),
    "contrastive_pair_margin": (
        f"{LINEAR}, margin=1.1, positive_margin=0.3, mean='pairs', "
        "mining='pair_margin(positive_margin=0.5, negative_margin=1.0)')",
        units,
        mean,
    ),
    "contrastive_angular": (
        f"{LINEAR}, margin=1.1, positive_margin=0.3, mean='pairs', mining='angular(angle=15)')",
        units,
        mean,
    ),
    "margin": ("margin(mining='all')", units, mean),
    "margin_per_class": ("margin(mining='all', learn_beta='per_class', nu=0.05, classes=7)", units, mean),
    "lifted_structure": ("lifted_structure(normalize=True)", as_they_are, mean),
    "lifted_structure_as_it_is": ("lifted_structure", as_they_are, mean),
    "generalized_lifted": (GENERALIZED, as_they_are, mean),
    "intra_pair_variance": ("intra_pair_variance", as_they_are, mean),
    "intra_pair_variance_wide": (
        "intra_pair_variance(positive_tolerance=0.2, negative_tolerance=0.1)",
        as_they_are,
        mean,
    ),
    "nca": ("nca(mean='pairs')", units, mean),
    "nca_sharp": ("nca(scale=4.0, mean='pairs')", units, mean),
    "n_pairs": ("n_pair(negatives='one_per_class', normalize=True)", as_they_are, of_first_rows),
    "n_pairs_as_it_is": ("n_pair(negatives='one_per_class')", as_they_are, of_first_rows),
    "nt_xent": ("nt_xent(temperature=0.2, mean='pairs')", as_they_are, mean),
    "nt_xent_sharp": ("nt_xent(temperature=0.07, mean='pairs')", as_they_are, mean),
    "nt_xent_nonzero": ("nt_xent(temperature=0.07, mean='nonzero')", as_they_are, mean),
    "nt_xent_per_anchor": ("nt_xent(temperature=0.07)", as_they_are, mean),
    **{
        f"pnp_{form}": (f"pnp(temperature=0.1, include_query=True, form='{form}')", as_they_are, mean) for form in FORMS
    },
    "smooth_ap": ("smooth_ap(include_query=True)", as_they_are, mean),
    "smooth_ap_warm": ("smooth_ap(temperature=0.1, include_query=True)", as_they_are, mean),
    "tuplet_margin": ("tuplet_margin(mean='pairs')", as_they_are, mean),
    "multi_similarity": ("multi_similarity(base=0.5, mining='all')", as_they_are, mean),
    "multi_similarity_mined": ("multi_similarity(beta=40.0, base=0.5)", as_they_are, mean),
    "circle": ("circle(mean='nonzero')", as_they_are, mean),
    "circle_faces": ("circle(margin=0.25, scale=256.0, mean='nonzero')", as_they_are, mean),
    "angular_of_units": ("angular(mean='pairs')", as_they_are, mean),
    "histogram": ("histogram", as_they_are, mean),
    "histogram_20": ("histogram(bins=20)", as_they_are, mean),
    "fast_ap": ("fast_ap(mean='pairs')", as_they_are, mean),
    "fast_ap_25": ("fast_ap(bins=25, mean='pairs')", as_they_are, mean),
    "sup_con": ("sup_con(mean='nonzero')", as_they_are, mean),
    "sup_con_warm": ("sup_con(temperature=0.5, mean='nonzero')", as_they_are, mean),
    "sphere_face": ("sphere_face(classes=7)", as_they_are, mean),
    "large_margin_softmax": ("large_margin_softmax(classes=7, margin=3, scale=2.0)", as_they_are, mean),
    "p2s_grad": ("p2s_grad(classes=7)", as_they_are, mean),
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
    # Anchors without a positive count, with their negatives or, in `pnp`, with themselves as the positive.
    "generalized_lifted": (GENERALIZED, as_they_are, mean, ["uneven"]),
    **{
        f"pnp_{form}": (f"pnp(temperature=0.1, include_query=True, form='{form}')", as_they_are, mean, ["uneven"])
        for form in FORMS
    },
    # Pairs of two rows neither of which has a positive are left out.
    "histogram": ("histogram", as_they_are, mean, ["uneven"]),
    "histogram_20": ("histogram(bins=20)", as_they_are, mean, ["uneven"]),
    # Negatives keep their length, against the paper's f, which is derived for unit length; at unit length the value is
    # ours, but the gradient changes that length.
    "angular": ("angular(alpha=40.0, mean='pairs')", as_they_are, mean, BATCHES),
    # It divides the batch into B / C classes of C rows each, C being the number of classes: right only where a class
    # has as many rows as there are classes, as in `pk`.
    "smooth_ap": ("smooth_ap(include_query=True)", as_they_are, mean, ["pairs"]),
    "smooth_ap_warm": ("smooth_ap(temperature=0.1, include_query=True)", as_they_are, mean, ["pairs"]),
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
    "triplet_semihard": ("triplet(margin=1.0, distance='euclidean', mean='pairs')", as_they_are, mean, BATCHES),
    "triplet_semihard_squared": ("triplet(margin=0.3, mean='pairs')", as_they_are, mean, BATCHES),
    "lifted_struct": ("lifted_structure", as_they_are, mean, BATCHES),
    "lifted_struct_margin": ("lifted_structure(margin=0.4)", as_they_are, mean, BATCHES),
    # Theirs takes anchors without a positive, too, which `uneven` has: their distance to the nearest negative.
    "triplet_hard": (
        "triplet(margin=1.0, mining='batch_hard', distance='euclidean')",
        as_they_are,
        mean,
        ("pk", "pairs"),
    ),
    "triplet_hard_squared": ("triplet(margin=0.3, mining='batch_hard')", as_they_are, mean, ("pk", "pairs")),
}
# The same for TensorFlow Similarity. In `uneven`, its losses take anchors without a positive, too.
HARDEST = "easy_hard(positives='hard', fallback=True)"
EASIEST = "easy_hard(positives='easy', fallback=True)"
OF_EVERY_ANCHOR = ("pk", "pairs")
SAME_AS_SIMILARITY = {
    "pn": (
        f"triplet(margin=0.0, form='smooth', distance='cosine', mining=\"{HARDEST}\", swap=True)",
        units,
        mean,
        OF_EVERY_ANCHOR,
    ),
    "pn_margin": (
        f"{TRIPLET}, margin=0.3, mining=\"easy_hard(positives='easy', negatives='hard')\", swap=True)",
        units,
        mean,
        OF_EVERY_ANCHOR,
    ),
    "soft_nearest_neighbor": ("nca", units, mean, BATCHES),
    "soft_nearest_neighbor_sharp": ("nca(scale=5.0, distance='cosine')", units, mean, BATCHES),
    "triplet": (
        f"triplet(margin=0.0, form='smooth', distance='cosine', mining=\"{HARDEST}\")",
        units,
        mean,
        OF_EVERY_ANCHOR,
    ),
    "triplet_margin": ("triplet(mining='batch_hard')", units, mean, OF_EVERY_ANCHOR),
    # Its semi-hard negatives are farther away than the farthest positive, even if it selects the nearest one.
    "triplet_easy": (f'{TRIPLET}, margin=1.0, mining="{EASIEST}")', units, mean, ("pairs",)),
    "triplet_snr": (
        "triplet(margin=1.0, distance='signal_to_noise', mining='batch_hard')",
        units,
        mean,
        OF_EVERY_ANCHOR,
    ),
    "triplet_manhattan": ("triplet(margin=1.0, distance='lp(p=1)', mining='batch_hard')", units, mean, OF_EVERY_ANCHOR),
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
