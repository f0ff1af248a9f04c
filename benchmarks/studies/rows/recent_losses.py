"""Losses since 2022 and regularizers on cars: `python -m benchmarks.study recent_losses --data_dir=data/cars`.

This file was committed before its runs, which nothing in it depends on. `recent_losses_emoji` has the same rows on
emoji. Results that need another row are exploratory.

**Protocol.** Rows train configs/cars_half.flags or configs/emoji.flags for 3,200 steps. Validation classes choose among
three learning rates of every row, baselines included: 3e-5, 1e-4 and 3e-4. The search runs at full length with seed 0,
which is not reported. All other arguments are fixed here, to the values of a paper or to what the searches of `cars`
and `emoji_losses` chose before. We report the seeds 1 to 3 (`--seeds=1,2,3`). Proxies learn 10 times as fast as the
network.

**Baselines** are the losses that were best on these sets before: N-pair, contrastive with a diameter, NormSoftmax,
Proxy-NCA and SoftTriple.

**Main differences.** Each claim has one main difference, of the new row minus its control. The eight differences of a
set are corrected together by the method of Holm at 5%. All other differences are unadjusted and secondary.

1. The Recall@k surrogate on large batches: "Recall@k, large batches" minus "N-pair, large batches". Both have 256
   images per batch and the number of images of the other rows, so fewer steps. SmoothAP shows what the surrogate adds
   to smooth ranks, and small batches show what their size adds.
2. Similarity mixup: "Recall@k, mixtures" minus "Recall@k".
3. The potential field: "potential field" minus "SoftTriple". Both have two proxies per class.
4. Hyperbolic distances: "hyperbolic NT-Xent" minus "N-pair".
5. Anti-collapse: "N-pair + anti-collapse" minus "N-pair".
6. Uniformity and decorrelation: "N-pair + uniformity" minus "N-pair". Decorrelation is secondary.
7. Regular face: "NormSoftmax + regular face" minus "NormSoftmax".
8. A cascade of hard pairs: "three levels, cascade" minus "three levels", both with the contrastive loss.

Four regularizers have no row. Embeddings at unit length have only one norm, proxies are compared by direction so that
their lengths do not matter, `soft_triple` already has sparse centers, and no paper claims an effect of the zero mean.

**Verdicts**, from the 95% confidence interval over classes and seeds, with 2 points as the smallest effect of interest:

- *agrees*: the interval is above 0.
- *excluded*: the interval includes 0 or is below it, its upper end is below 2 points, and both rows are flat:
  validation gained less than 1 point in the last quarter.
- *cannot tell*: everything else. With three seeds, the minimum detectable effect is about 3.0 points.

Except for the difference between large and small batches, every row has the batches and steps of its control. Runs are
kept. docs/datasets.md is about the images.
"""

from benchmarks.studies.rows.emoji_ranked_list import levels
from tfdml.run.study.study import Study
from tfdml.run.study.tables import BEST_AND_LAST, FINISHED, MetricOf

RATES = ("0.00003", "0.0001", "0.0003")
STEPS, EVALUATIONS = 3200, 16
# Images per batch of the rows with large batches, in chunks of 32 images.
LARGE, PER_CLASS, CHUNK = 256, 4, 32
FAST_PROXIES = "--lr_multipliers=loss=10"

N_PAIR, SOFTMAX, TRIPLE = "N-pair", "NormSoftmax", "SoftTriple"
RECALL, SMOOTH, MIXED = "Recall@k", "SmoothAP", "Recall@k, mixtures"
FIELD, BALL = "potential field", "hyperbolic NT-Xent"
VOLUME, EVEN, APART = "N-pair + anti-collapse", "N-pair + uniformity", "N-pair + decorrelation"
SPREAD = "NormSoftmax + regular face"
THREE, CASCADE = "three levels", "three levels, cascade"
IN_LARGE = ", large batches"

OF_N_PAIR, OF_SOFTMAX = "n_pair(scale=10.0)", "norm_softmax(temperature=0.05)"
LOSSES = {
    N_PAIR: [f"--loss={OF_N_PAIR}"],
    "contrastive, with a diameter": ["--loss=contrastive(margin=1.0, positive_margin=0.2)"],
    SOFTMAX: [f"--loss={OF_SOFTMAX}", FAST_PROXIES],
    "Proxy-NCA": ["--loss=proxy_nca(scale=9.0)", FAST_PROXIES],
    TRIPLE: ["--loss=soft_triple(per_class=2)", FAST_PROXIES],
    SMOOTH: ["--loss=smooth_ap"],
    RECALL: ["--loss=recall_at_k"],
    MIXED: ["--loss=recall_at_k(mixtures=2)"],
    FIELD: ["--loss=potential_field(per_class=2)", FAST_PROXIES],
    BALL: ["--loss=hyperbolic_nt_xent", "--method=single(normalize=False)"],
    # The weights make the largest change that a term can cause similar: its range is 45, 4 and 0.5.
    VOLUME: [f"--loss={OF_N_PAIR} + 0.01*anti_collapse"],
    EVEN: [f"--loss={OF_N_PAIR} + 0.1*uniformity"],
    APART: [f"--loss={OF_N_PAIR} + 1.0*decorrelation"],
    SPREAD: [f"--loss={OF_SOFTMAX} + 1.0*regular_face", FAST_PROXIES],
}


def of_levels(cascade=""):
    """Returns the flags of three feature levels with the contrastive loss."""
    backbone, method, size = levels("LMH")
    return [backbone, f"{method.removesuffix(')')}{cascade})", size, "--loss=contrastive(margin=1.0)"]


def length(steps):
    """Returns the flags of a run of that many steps."""
    return [f"--steps={steps}", f"--eval_every={steps // EVALUATIONS}", "--eval_unit=steps"]


def study(flagfile, folder, batch_size):
    """Returns the study of a set with this number of images per batch."""
    large = [f"--sampler=pxk(classes={LARGE // PER_CLASS}, per_class={PER_CLASS})", f"--pieces={LARGE // CHUNK}"]
    rows = {name: [*flags, *length(STEPS)] for name, flags in LOSSES.items()}
    rows[THREE] = [*of_levels(), *length(STEPS)]
    rows[CASCADE] = [*of_levels(", cascade=(1.0, 0.5, 0.2)"), *length(STEPS)]
    for name in (N_PAIR, SMOOTH, RECALL):
        rows[f"{name}{IN_LARGE}"] = [*LOSSES[name], *large, *length(STEPS * batch_size // LARGE)]
    return Study(
        flagfile=flagfile,
        rows=rows,
        columns={**BEST_AND_LAST, "MAP@R": MetricOf("best", "map_at_r"), **FINISHED},
        folder=folder,
        settings={name: [[f"--optimizer=adam(learning_rate={rate})"] for rate in RATES] for name in rows},
        differences=[*MAIN, *SECONDARY],
    )


# The second minus the first.
MAIN = [
    (f"{N_PAIR}{IN_LARGE}", f"{RECALL}{IN_LARGE}"),
    (RECALL, MIXED),
    (TRIPLE, FIELD),
    (N_PAIR, BALL),
    (N_PAIR, VOLUME),
    (N_PAIR, EVEN),
    (SOFTMAX, SPREAD),
    (THREE, CASCADE),
]
SECONDARY = [
    (f"{SMOOTH}{IN_LARGE}", f"{RECALL}{IN_LARGE}"),
    (SMOOTH, RECALL),
    (RECALL, f"{RECALL}{IN_LARGE}"),
    (N_PAIR, RECALL),
    (N_PAIR, FIELD),
    (N_PAIR, APART),
]
STUDY = study("configs/cars_half.flags", "runs/recent_losses", batch_size=32)
