"""Losses on the emoji set, with one search budget for each: `python -m benchmarks.study emoji_losses`.

Trains configs/emoji.flags with each loss below in four settings, two of the loss and two learning rates, with one seed
and 400 steps; of proxies the rates differ, and the network has one. What is best on validation classes is trained with
all seeds, and some with four times the steps, other batches, larger images, batch norm, or a backbone that is frozen at
first, as well. Prints a Markdown table of all settings, and one of all seeds: mean ± standard deviation, in percent, on
test classes, of the best and the last models, MAP@R of the best, steps to it, and what Recall@1 on validation classes
gained in the last quarter of the steps, near 0 where a run is finished. Lifted structure keeps lengths. --intervals
compares each loss with the first one, and --curves=curves.svg draws all runs. Runs are kept.
docs/emoji.md is about the images; --data_dir says where they are.
"""

import itertools

from benchmarks.studies.added_rows import FOUR_TIMES, LARGER, add_rows
from tfdml.run.study.study import Study
from tfdml.run.study.tables import BEST_AND_LAST, FINISHED, MetricOf

FLAGFILE = "configs/emoji.flags"
RATES = ("0.0001", "0.0003")
# Two settings each: of papers and their code, or close to them.
LOSSES = {
    "triplet, semi-hard": ("triplet(margin=0.2)", "triplet(margin=0.1)"),
    "triplet, batch-hard": ("triplet(margin=0.2, mining='batch_hard')", "triplet(margin=0.1, mining='batch_hard')"),
    "contrastive": ("contrastive(margin=1.0)", "contrastive(margin=0.8)"),
    # A class is not pulled into one point, as those of ranked list loss are not.
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
# Proxies begin at random, and learn so many times as fast as the network; with the higher rate it collapsed where
# that was tried, with three of them.
TIMES = ("10", "100")
SEARCHING = ("--steps=400",)
PROXIES = ("Proxy-NCA", "Proxy-Anchor", "NormSoftmax", "SoftTriple", "ArcFace", "sub-center ArcFace", "CosFace")
# Left out: the losses of EDMS, which need few classes per network and are in `edms_variants`; losses that wrap others
# or are terms of sums alone; `nt_xent`, which at unit length is `n_pair` with a scale of 1 / temperature; and losses
# for levels of classes, wrong labels or views of images, which emoji do not have.
CHANGES = {name: [] for name in LOSSES}
# As in its article.
CHANGES["lifted structure"] = ["--method=single(normalize=False)", "--protocol=self_retrieval(distance='euclidean')"]
# On pairs and on proxies, until they no longer improve; with triplets it is a row of `emoji_training`.
FOLLOW = {}
LONGER = ("contrastive", "contrastive, with a diameter", "N-pair", "Proxy-Anchor", "NormSoftmax")
add_rows(CHANGES, FOLLOW, LONGER, FOUR_TIMES, "--steps=3200")
add_rows(CHANGES, FOLLOW, ["N-pair"], LARGER, "--image_size=96")
# Two images of a class in place of four, so that each image has one partner.
PAIRS = f"{FOUR_TIMES}, 32 × 2 images"
add_rows(CHANGES, FOLLOW, ["contrastive"], PAIRS, "--steps=3200", "--sampler=pxk(classes=32, per_class=2)")
# Why losses on proxies are slow: the slowest, another one, and one on pairs.
LOOKED_INTO = ("Proxy-Anchor", "NormSoftmax", "triplet, semi-hard")
# Because all features of a pretrained network are alike: batch norm centers them.
CENTERED = ", batch norm in the head"
add_rows(CHANGES, FOLLOW, LOOKED_INTO, CENTERED, "--head=linear(norm='batch')")
# Or because gradients of random proxies spoil what is pretrained: for 200 steps the backbone stays as it is.
PROXIES_FIRST = ", backbone frozen for 200 steps"
add_rows(CHANGES, FOLLOW, LOOKED_INTO, PROXIES_FIRST, "--steps_per_epoch=50", "--warmup_epochs=4")
# The second minus the first.
DIFFERENCES = [(f"contrastive{FOUR_TIMES}", f"contrastive{PAIRS}")]
DIFFERENCES += [("N-pair", f"N-pair{LARGER}")]
DIFFERENCES += [(f"contrastive{more}", f"contrastive, with a diameter{more}") for more in ("", FOUR_TIMES)]
DIFFERENCES += [(name, f"{name}{more}") for more in (CENTERED, PROXIES_FIRST) for name in LOOKED_INTO]
COLUMNS = {**BEST_AND_LAST, "MAP@R": MetricOf("best", "map_at_r"), **FINISHED}


def settings_of(name):
    """The four settings of a loss."""
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
