"""Losses on the emoji dataset, with one search budget for each: `python -m benchmarks.study emoji_losses`.

Trains configs/emoji.flags with each loss below in four settings, with one seed and 400 steps: two settings of the loss
and two learning rates. For proxy-based losses, the learning rates of the proxies differ instead, and the network has
one. The settings that are best on validation classes are trained with all seeds, and some of them also with four times
the steps, other batches, larger images, batch norm, or a backbone that is frozen at first. It prints a table of all
settings and a table over all seeds, in Markdown. The second one has the mean ± standard deviation, in percent, of
Recall@1 on test classes of the best and the last models, MAP@R of the best models, the number of steps until them, and
the gain in Recall@1 on validation classes in the last quarter of the steps, which is near 0 if a run has converged.
Lifted structure does not normalize the embeddings. --intervals compares each loss with the first one, and
--curves=curves.svg draws all runs. It keeps the runs and does not train a complete run again. docs/datasets.md
describes the images, and --data_dir is their folder.
"""

import itertools

from benchmarks.studies.added_rows import FOUR_TIMES, LARGER, add_rows
from tfdml.run.study.study import Study
from tfdml.run.study.tables import BEST_AND_LAST, FINISHED, MetricOf

FLAGFILE = "configs/emoji.flags"
RATES = ("0.0001", "0.0003")
# Each loss has two settings, from papers and their code or close to them.
LOSSES = {
    "triplet, semi-hard": ("triplet(margin=0.2)", "triplet(margin=0.1)"),
    "triplet, batch-hard": ("triplet(margin=0.2, mining='batch_hard')", "triplet(margin=0.1, mining='batch_hard')"),
    "contrastive": ("contrastive(margin=1.0)", "contrastive(margin=0.8)"),
    # With a positive margin, a class is not pulled into one point, as in ranked list loss.
    "contrastive, with a diameter": (
        "contrastive(margin=1.0, positive_margin=0.2)",
        "contrastive(margin=1.0, positive_margin=0.4)",
    ),
    "margin": ("margin(beta=1.2)", "margin(beta=1.0)"),
    "lifted structure": ("lifted_structure(margin=1.0)", "lifted_structure(margin=0.5)"),
    "N-pair": ("n_pair(scale=20.0)", "n_pair(scale=10.0)"),
    "SupCon": ("sup_con(temperature=0.1)", "sup_con(temperature=0.05)"),
    "multi-similarity": ("multi_similarity(base=1.0)", "multi_similarity(beta=40.0, base=0.5)"),
    "circle": ("circle", "circle(margin=0.25, scale=128.0)"),
    "ranked list": ("ranked_list(alpha=1.4, margin=0.2)", "ranked_list(margin=0.4, negative_temperature=20.0)"),
    "ranked list, simpler": ("ranked_list_simpler(margin=0.4)", "ranked_list_simpler(margin=0.6)"),
    "FastAP": ("fast_ap(bins=10)", "fast_ap(bins=20)"),
    "SmoothAP": ("smooth_ap(temperature=0.01)", "smooth_ap(temperature=0.05)"),
    "angular": ("angular(alpha=45.0)", "angular(alpha=36.0)"),
    "binomial deviance": ("binomial_deviance", "binomial_deviance(beta=0.3)"),
    "histogram": ("histogram(bins=100)", "histogram(bins=200)"),
    "Proxy-NCA": ("proxy_nca(scale=9.0)", "proxy_nca(scale=16.0)"),
    "Proxy-Anchor": ("proxy_anchor", "proxy_anchor(scale=16.0)"),
    "NormSoftmax": ("norm_softmax(temperature=0.05)", "norm_softmax(temperature=0.1)"),
    "SoftTriple": ("soft_triple(per_class=2)", "soft_triple(per_class=2, scale=10.0)"),
    "ArcFace": ("arc_face(scale=32.0, margin=0.3)", "arc_face(scale=16.0, margin=0.3)"),
    "sub-center ArcFace": (
        "sub_center_arc_face(scale=32.0, margin=0.3, per_class=2)",
        "sub_center_arc_face(scale=16.0, margin=0.3, per_class=2)",
    ),
    "CosFace": ("cos_face(scale=32.0, margin=0.2)", "cos_face(scale=16.0, margin=0.2)"),
}
# Proxies start from random values, so their learning rate is higher than the network's by these factors. With a higher
# learning rate of the network, training collapsed for the three losses that we tried.
TIMES = ("10", "100")
SEARCHING = ("--steps=400",)
PROXIES = ("Proxy-NCA", "Proxy-Anchor", "NormSoftmax", "SoftTriple", "ArcFace", "sub-center ArcFace", "CosFace")
# These losses are missing: the losses of EDMS, which need few classes per network and are in `edms_variants`; losses
# that wrap others or are only terms of sums; `nt_xent`, which for L2-normalized embeddings is `n_pair` with a scale of
# 1 / temperature; and losses for class hierarchies, label noise or views of images, which do not apply to emoji.
CHANGES = {name: [] for name in LOSSES}
# As in the paper.
CHANGES["lifted structure"] = ["--method=single(normalize=False)", "--protocol=self_retrieval(distance='euclidean')"]
# Pair-based and proxy-based losses that train until they no longer improve. `emoji_training` has the row for triplets.
FOLLOW = {}
LONGER = ("contrastive", "contrastive, with a diameter", "N-pair", "Proxy-Anchor", "NormSoftmax")
add_rows(CHANGES, FOLLOW, LONGER, FOUR_TIMES, "--steps=3200")
add_rows(CHANGES, FOLLOW, ["N-pair"], LARGER, "--image_size=96")
# Two images per class instead of four, so that each image has one positive.
PAIRS = f"{FOUR_TIMES}, 32 × 2 images"
add_rows(CHANGES, FOLLOW, ["contrastive"], PAIRS, "--steps=3200", "--sampler=pxk(classes=32, per_class=2)")
# These rows test why proxy-based losses are slow: the slowest, another one, and a pair-based loss.
LOOKED_INTO = ("Proxy-Anchor", "NormSoftmax", "triplet, semi-hard")
# The features of a pretrained network are similar to each other, and batch norm centers them.
CENTERED = ", batch norm in the head"
add_rows(CHANGES, FOLLOW, LOOKED_INTO, CENTERED, "--head=linear(norm='batch')")
# The gradients of random proxies may damage pretrained weights, so these rows freeze the backbone for 200 steps.
PROXIES_FIRST = ", backbone frozen for 200 steps"
add_rows(CHANGES, FOLLOW, LOOKED_INTO, PROXIES_FIRST, "--steps_per_epoch=50", "--warmup_epochs=4")
# Each difference is the second row minus the first.
DIFFERENCES = [(f"contrastive{FOUR_TIMES}", f"contrastive{PAIRS}")]
DIFFERENCES += [("N-pair", f"N-pair{LARGER}")]
DIFFERENCES += [(f"contrastive{more}", f"contrastive, with a diameter{more}") for more in ("", FOUR_TIMES)]
DIFFERENCES += [(name, f"{name}{more}") for more in (CENTERED, PROXIES_FIRST) for name in LOOKED_INTO]
COLUMNS = {**BEST_AND_LAST, "MAP@R": MetricOf("best", "map_at_r"), **FINISHED}


def settings_of(name):
    """Returns the four settings of a loss."""
    if name in PROXIES:
        tried = itertools.product(LOSSES[name], RATES[:1], [[f"--lr_multipliers=loss={times}"] for times in TIMES])
    else:
        tried = itertools.product(LOSSES[name], RATES, [[]])
    return [[f"--loss={loss}", f"--optimizer=adam(learning_rate={rate})", *more] for loss, rate, more in tried]


STUDY = Study(
    flagfile=FLAGFILE,
    rows=CHANGES,
    columns=COLUMNS,
    folder="runs/emoji_losses",
    settings={name: settings_of(name) for name in LOSSES},
    searching=SEARCHING,
    follow=FOLLOW,
    differences=DIFFERENCES,
)
