"""Decisive tests of eight claims on half of Cars196: `python -m benchmarks.study decisive --data_dir=data/cars`.

This file was committed before its runs. It fixes the claims, rows, controls, learning rates, lengths and seeds, so that
nothing about them can depend on the results. Results that need another row are exploratory.

**Protocol.** Every row trains configs/cars_half.flags, MobileNetV2 of width 0.35 at 96 px, and starts from a random
embedding unless the claim is about the first embedding. Validation classes choose among three settings of every row,
ablations and baselines included. The search runs at full length with seed 0, which is not reported. The settings are
the learning rates 3e-5, 1e-4 and 3e-4. Rows without training choose among three closed forms instead. All other
arguments are fixed here, to the values of a paper or to what the searches of `cars` chose before. We report the seeds 1
to 5 (`--seeds=1,2,3,4,5`), and for the ensembles of claims 3 and 4 the seeds 1 to 3. The tables show the chosen and the
last model. The verdict uses the chosen model, and its note says so if the last models differ in the other direction.

**Main differences.** Each claim has one main difference, of the row that it says is better minus its control. The eight
differences are corrected together by the method of Holm at 5%. All other differences are unadjusted and secondary.

1. Levels or heads: "three levels" minus "three heads of one depth, equal parameters". Paper: +3.8 over one level.
2. Divide and Conquer as published, with margin loss, batches in proportion, stable clusters and a merged end: "K = 4"
   minus "one embedding, margin loss". Paper: +2.3 (the authors' own runs), at 6,400 steps and once at 25,600.
   "not split" has the steps of all learners together or of one learner; random images and classes replace clusters.
3. Hard proxies of EDMS: the dose of `proxy_steps` with the best validation score of a single member, minus images as
   proxies, 5 members each. Paper: +5.8 with 25 members. Batches of 128 images, 50 meta-classes (about half of 128, as
   in the paper), 10 epochs, a tenth of the rate after every 3. A row did not learn if its members alone are not at
   least 2 points above the untrained model, and then its differences are "cannot tell".
4. Attention-based Ensemble: "ABE-4" minus "4-heads", with masks of 12 × 12 that start from 0.95, so that frozen batch
   norm sees what it saw in pretraining. Paper: +5.9. The divergence's own effect is secondary; paper: +15.5.
5. Ranked list loss equals a tuned softmax loss over pairs: "ranked list" minus "N-pair, tuned", an equivalence test
   with a margin of 2 points at 64 dimensions. The paper's +19.8 is over a copied number; "N-pair-mc" is that loss
   itself: one negative per class, no temperature, lengths that are kept but penalized, batches of pairs.
6. Proxies need visits: (Proxy-NCA minus N-pair at 3,200 steps) minus (the same at 800 steps), on 78 classes. A class is
   visited steps × 8 / classes times: 82 and 328 on 78 classes, 320 and 1,280 on 20 classes. If visits decide, the
   difference on 20 classes at 800 steps equals the one on 78 at 3,200. Rows on 20 classes validate on the other 78.
7. Training improves over linear discriminants of frozen features: "three levels, trained" minus the better of the two
   frozen rows by validation. The frozen rows choose between 77 discriminants of Fisher per depth, more directions, and
   whitening within classes; their single step has a rate of 1e-12, which changes no weight.
8. Lifted structure at its plateau: hard neighbors minus random negatives, 6,400 steps of 64 images. No paper's number.

**Verdicts**, from the 95% confidence interval over classes and seeds. The smallest effect of interest is the paper's,
or 2 points if there is none.

- *agrees*: the interval is above 0 and its upper end reaches the effect of interest. For claim 5: the 90% interval is
  within -2 and 2.
- *weaker*: the interval is above 0 and below the effect of interest.
- *excluded*: the interval includes 0 or is below it, its upper end is below the effect of interest, and both rows are
  flat: validation gained less than 1 point in the last quarter. For claim 5: the 95% interval excludes 0 and has an end
  beyond 2.
- *cannot tell*: everything else, also where the minimum detectable effect exceeds the effect of interest and the
  interval includes 0, or where a row has not learned or is not flat.

**Minimum detectable effect** with 80% power at 5%, from the three-seed rows of `cars`, in which classes have a standard
error of 0.6 points and a seed's difference deviates by 1.5: 2.5 points with 5 seeds, 3.0 with 3, 4.5 with one. Claim 2
at +2.3 is therefore at the limit, and its single pair of 25,600 steps can only show a large effect.

**Equal parameters.** "three levels" has 3,454,688 trainable parameters; "three heads of one depth, equal parameters"
has 3,455,432, with the same two auxiliary heads on the last convolution before and after its batch norm, and 570
reduced channels instead of 128. "three linear levels" has 566,496, fewer than "three linear heads" and "one embedding",
888,032. All have 384 dimensions.

Every row has the same batches and steps as its control. Runs are kept. docs/datasets.md is about the images.
"""

from benchmarks.studies.rows.divide_and_conquer import divided
from benchmarks.studies.rows.emoji_ensembles import cosine_of_self_pairs
from benchmarks.studies.rows.emoji_ranked_list import levels
from tfdml.run.study.study import Number, Study
from tfdml.run.study.tables import BEST_AND_LAST, MetricOf, gained_late, recall_alone, steps_to_best

RATES = ("0.00003", "0.0001", "0.0003")
N_PAIR = "--loss=n_pair(scale=10.0)"
MOBILENET = "keras_applications(name='MobileNetV2', alpha=0.35, endpoints={})"


def length(steps):
    """Returns the flags of a run of that many steps, with 16 evaluations."""
    return [f"--steps={steps}", f"--eval_every={steps // 16}"]


def linear_levels():
    """Returns the flags of three levels that all have a linear head."""
    backbone, method, size = levels("LMH")
    return [backbone, method.removesuffix(")") + ", auxiliary=())", size]


# Claim 1.
THREE, HEADS = "three levels", "three heads of one depth, equal parameters"
LINEAR_LEVELS, LINEAR_HEADS, ONE = "three linear levels", "three linear heads", "one embedding"
LAST = ("Conv_1", "Conv_1_bn")
OF_LEVELS = {
    THREE: levels("LMH"),
    HEADS: [
        f"--backbone={MOBILENET.format(LAST)}",
        f"--method=multilevel(endpoints={(*LAST, 'output')}, auxiliary={LAST}, reduced=570)",
        "--embedding_size=384",
    ],
    LINEAR_LEVELS: linear_levels(),
    LINEAR_HEADS: ["--method=multi_head(learners=3, branch='output')", "--embedding_size=384"],
    ONE: ["--embedding_size=384"],
}
OF_LEVELS = {name: [*flags, N_PAIR, *length(3200)] for name, flags in OF_LEVELS.items()}

# Claim 7.
FROZEN, FROZEN_LEVELS = "frozen features, discriminants", "frozen features of three depths, discriminants"
TRAINED, TRAINED_LEVELS = "one embedding, trained from discriminants", "three levels, trained from discriminants"
# An evaluation before and after a step that changes nothing.
NOT_TRAINED = ["--optimizer=adam(learning_rate=1e-12)", "--steps=1", "--eval_every=1"]
DISCRIMINANTS = {
    FROZEN: [*NOT_TRAINED, N_PAIR],
    FROZEN_LEVELS: [*linear_levels()[:2], *NOT_TRAINED, N_PAIR],
    TRAINED: ["--embedding_size=384", "--initial_embedding=auto", N_PAIR, *length(3200)],
    TRAINED_LEVELS: [*levels("LMH"), "--initial_embedding=auto", N_PAIR, *length(3200)],
}


def closed_forms(depths):
    """Returns the settings of frozen features: discriminants, discriminants and more directions, and whitening."""
    tried = (("lda", 77 * depths), ("lda", 384), ("wccn", 384))
    return [[f"--initial_embedding={kind}", f"--embedding_size={size}"] for kind, size in tried]


# Claim 5.
RANKED, NO_MARGIN = "ranked list", "ranked list, no margin"
TUNED, N_PAIR_MC = "N-pair, tuned", "N-pair-mc"
OF_LOSSES = {
    RANKED: ["--loss=ranked_list"],
    TUNED: [N_PAIR],
    # The penalty is that of 0.002 for pairs, half of it for each of a pair's two anchors.
    N_PAIR_MC: [
        "--loss=n_pair(negatives='one_per_class', regularization=0.001)",
        "--method=single(normalize=False)",
        "--sampler=pxk(classes=16, per_class=2)",
    ],
    NO_MARGIN: ["--loss=ranked_list(margin=0.0)"],
}
OF_LOSSES = {name: [*flags, "--embedding_size=64", *length(3200)] for name, flags in OF_LOSSES.items()}

# Claim 2. An epoch has about 100 steps. Of 64 epochs the last 8 train the embedding alone, on all data.
DIVIDED, UNDIVIDED = "K = 4, margin loss", "one embedding, margin loss"
UNSPLIT, UNSPLIT_SHORT = "K = 4, not split, steps of all learners", "K = 4, not split, steps of one learner"
RANDOM, RANDOM_CLASSES = "K = 4, random images", "K = 4, random classes"
LONG_DIVIDED, LONG_UNDIVIDED = f"{DIVIDED}, 25,600 steps", f"{UNDIVIDED}, 25,600 steps"


def conquered(times=1.0, more=""):
    """Returns the flags of Divide and Conquer with a merged end and four clusterings, whatever the length."""
    plan = f"recluster_every={int(16 * times)}, restarts=5, merge_at={int(56 * times)}, finetune='embedding'"
    return [*divided(f"{plan}{more}"), *length(int(6400 * times))]


OF_DIVIDING = {
    DIVIDED: conquered(),
    UNDIVIDED: length(6400),
    UNSPLIT: conquered(more=", split_embedding=False"),
    UNSPLIT_SHORT: conquered(0.25, ", split_embedding=False"),
    RANDOM: conquered(more=", data_split='random'"),
    RANDOM_CLASSES: conquered(more=", data_split='random_classes'"),
    LONG_DIVIDED: conquered(4),
    LONG_UNDIVIDED: length(25600),
}
MARGIN = ["--loss=margin(beta=1.2, margin=0.2)", "--sampler=proportional_pxk(groups=8, per_class=4)"]
OF_DIVIDING = {name: [*flags, *MARGIN] for name, flags in OF_DIVIDING.items()}

# Claim 3.
IMAGES, PLAIN = "EDMS, images as proxies", "EDMS, no walks or proxies"
DOSES = {f"EDMS, hard proxies, {count} steps": count for count in (30, 100, 300, 1000)}
WALKS = "--loss=contextual_manifold(proxies={}, margin=0.0, restart=0.2, scale=10000.0)"
OF_PROXIES = {
    PLAIN: ["--loss=n_pair(margin=0.0005, scale=10.0)"],
    IMAGES: [WALKS.format("'images'")],
    **{name: [WALKS.format(f"'hard', proxy_steps={count}")] for name, count in DOSES.items()},
}
REGIME = [
    "--meta_classes=50",
    "--members=5",
    "--sampler=uniform(batch_size=128)",
    "--schedule=step(every=3, factor=0.1)",
    "--steps=0",
    "--epochs=10",
    "--eval_unit=epochs",
    "--eval_every=1",
]
OF_PROXIES = {name: [*flags, *REGIME] for name, flags in OF_PROXIES.items()}

# Claim 4. Attention copies the two blocks behind the branch, where features have an eighth of the images' sides.
ABE, FOUR_HEADS, ONE_HEAD, NO_DIVERGENCE = "ABE-4", "4-heads", "1-head", "ABE-4 without divergence"
CUT = "branch='block_3_project_BN'"
MASKS = f"attention_ensemble(learners=4, {CUT}, attention_depth=1, initial_mask=0.95"
METHODS = {
    ABE: f"{MASKS}, divergence_weight=1.0)",
    FOUR_HEADS: f"multi_head(learners=4, {CUT})",
    NO_DIVERGENCE: f"{MASKS}, divergence_weight=0.0)",
    ONE_HEAD: f"multi_head(learners=1, {CUT})",
}
PAIRS = ["--loss=contrastive(margin=1.0)", "--sampler=pairs(images=32)"]
PAIRS += [f"--backbone={MOBILENET.format(('block_3_project_BN', 'block_5_add'))}"]
OF_ENSEMBLES = {name: [f"--method={method}", *PAIRS, *length(6400)] for name, method in METHODS.items()}

# Claim 6.
PROXIES = ["--loss=proxy_nca(scale=9.0)", "--lr_multipliers=loss=10"]
FEW = "--validation_classes=0.8"
OF_VISITS = {
    f"{name}, {classes} classes, {steps:,} steps": [*loss, *[FEW] * (classes == 20), *length(steps)]
    for classes, steps in ((78, 3200), (78, 800), (20, 800), (20, 3200))
    for name, loss in (("Proxy-NCA", PROXIES), ("N-pair", [N_PAIR]))
}

# Claim 8.
NEIGHBORS, NEGATIVES = "lifted structure, hard neighbors", "lifted structure, random negatives"
LIFTED = ["--method=single(normalize=False)", "--protocol=self_retrieval(distance='euclidean')"]
LIFTED += ["--loss=lifted_structure(margin=0.5)", *length(6400)]
OF_LIFTED = {
    NEIGHBORS: ["--sampler=hard_neighbors(pairs=16)", *LIFTED],
    # More passes than any run has: the neighbors stay random.
    NEGATIVES: ["--sampler=hard_neighbors(pairs=16, refresh_every=1000000)", *LIFTED],
}

# In the order of the runs.
CLAIMS = {
    "1": OF_LEVELS,
    "7": DISCRIMINANTS,
    "5": OF_LOSSES,
    "2": OF_DIVIDING,
    "3": OF_PROXIES,
    "4": OF_ENSEMBLES,
    "6": OF_VISITS,
    "8": OF_LIFTED,
}
ROWS = {name: flags for rows in CLAIMS.values() for name, flags in rows.items()}
# The longest runs are too long to search.
FOLLOW = {LONG_DIVIDED: DIVIDED, LONG_UNDIVIDED: UNDIVIDED}


def settings_of(name):
    """Returns the three settings of a row."""
    if name in (FROZEN, FROZEN_LEVELS):
        return closed_forms(3 if name == FROZEN_LEVELS else 1)
    # Those of the paper, which matter because the gradients of walks are small.
    more = ", epsilon=1e-8, weight_decay=1e-5, l2=True" if name in OF_PROXIES else ""
    return [[f"--optimizer=adam(learning_rate={rate}{more})"] for rate in RATES]


def parameters(results, run_dirs):
    """Returns a column of the number of trainable parameters, which is empty for members of an ensemble."""
    return Number(results[0]["cost"]["parameters"], ",.0f") if "cost" in results[0] else ""


COLUMNS = {
    **BEST_AND_LAST,
    "MAP@R": MetricOf("best", "map_at_r"),
    "a learner's Recall@1": recall_alone,
    "cosine of self pairs": cosine_of_self_pairs,
    "parameters": parameters,
    "steps to the best": steps_to_best,
    "gain in the last quarter": gained_late,
}
# The second minus the first. Claim 3 has the dose that validation chooses, and claim 6 a difference of two of these.
MAIN = [
    (HEADS, THREE),
    (UNDIVIDED, DIVIDED),
    *((IMAGES, name) for name in DOSES),
    (FOUR_HEADS, ABE),
    (TUNED, RANKED),
    *((f"N-pair, 78 classes, {steps} steps", f"Proxy-NCA, 78 classes, {steps} steps") for steps in ("800", "3,200")),
    *((name, TRAINED_LEVELS) for name in (FROZEN, FROZEN_LEVELS)),
    (NEGATIVES, NEIGHBORS),
]
SECONDARY = [
    (LINEAR_HEADS, LINEAR_LEVELS),
    (LINEAR_LEVELS, THREE),
    (LINEAR_HEADS, HEADS),
    (ONE, LINEAR_HEADS),
    (ONE, THREE),
    (UNSPLIT, DIVIDED),
    (UNSPLIT_SHORT, DIVIDED),
    (RANDOM, DIVIDED),
    (RANDOM_CLASSES, DIVIDED),
    (LONG_UNDIVIDED, LONG_DIVIDED),
    (PLAIN, IMAGES),
    (NO_DIVERGENCE, ABE),
    (ONE_HEAD, ABE),
    (ONE_HEAD, FOUR_HEADS),
    (N_PAIR_MC, TUNED),
    (N_PAIR_MC, RANKED),
    (NO_MARGIN, RANKED),
    *((f"N-pair, 20 classes, {steps} steps", f"Proxy-NCA, 20 classes, {steps} steps") for steps in ("800", "3,200")),
    (FROZEN, FROZEN_LEVELS),
    (FROZEN, TRAINED),
    (ONE, TRAINED),
    (THREE, TRAINED_LEVELS),
]

STUDY = Study(
    flagfile="configs/cars_half.flags",
    rows=ROWS,
    columns=COLUMNS,
    folder="runs/decisive",
    settings={name: settings_of(name) for name in ROWS if name not in FOLLOW},
    # A single member searches for the members of an ensemble.
    searching=("--members=0",),
    follow=FOLLOW,
    differences=[*MAIN, *SECONDARY],
)
