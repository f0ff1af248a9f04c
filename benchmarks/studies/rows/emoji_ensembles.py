"""Attention-based Ensemble and its controls on the emoji dataset: `python -m benchmarks.study emoji_ensembles`.

Trains configs/emoji.flags with each of the changes below. Validation classes select among four settings of each row
with one seed and 400 steps: two learning rates with two weights of the divergence loss, or four learning rates if a row
has no divergence loss. It prints a table of all settings and a table over all seeds, in Markdown. The second one has
the mean ± standard deviation, in percent, of Recall@1 on test classes of the best and the last models and of the
learners of the best models alone, the mean cosine of their self pairs, the number of steps until the best model, and
the gain in Recall@1 on validation classes in the last quarter of the steps, which is near 0 if a run has converged.
Differences between the best models of rows follow below the table. It keeps the runs and does not train a complete run
again. docs/datasets.md describes the images, and --data_dir is their folder.
"""

import itertools
import statistics

from benchmarks.studies.added_rows import FOUR_TIMES, LARGER, add_rows
from tfdml.run.study.study import Number, Study
from tfdml.run.study.tables import BEST_AND_LAST, FINISHED, learners_of, recall_alone

FLAGFILE = "configs/emoji.flags"
# Batches of 32 pairs, as in the paper. Equation (10) is a sum over all pairs of a batch, or over the explicit pairs.
ALL_PAIRS, GIVEN_PAIRS = "--loss=contrastive(margin=1.0)", "--loss=contrastive(margin=1.0, pairs='given')"
PAIRS = ["--sampler=pairs(images=32)", "--embedding_size=128"]
# Learners branch off where features have 1/16 of the images' side length; attention copies the next three blocks.
BACKBONE = "keras_applications(name='MobileNetV2', alpha=0.35, endpoints=('block_6_project_BN', 'block_9_add'))"
CUT = "branch='block_6_project_BN'"
ATTENTION = f"{CUT}, attention_depth=1"
# Random masks around 0.5 change the inputs of a pretrained network with frozen batch norm.
NEAR_ONE = f"{ATTENTION}, initial_mask=0.95"
RATES = ("0.0001", "0.0003")
MORE_RATES = ("0.00003", *RATES, "0.001")
# Weights of the divergence loss, starting with the paper's.
WEIGHTS, NONE = ("1.0", "0.1"), (0.0,)
SEARCHING = ("--steps=400",)
# This weight has its own row, because short runs select 10% of it.
PAPERS_WEIGHT = "ABE-4, λ = 1"


# Rows of Tables 1 to 3 of the paper, with the weights of the divergence loss. Most controls have four learners.
METHODS = {
    "1-head": (f"multi_head(learners=1, {CUT}", NONE),
    "ABE-1": (f"attention_ensemble(learners=1, {ATTENTION}", NONE),
    "ABE-2": (f"attention_ensemble(learners=2, {ATTENTION}", WEIGHTS),
    "ABE-4": (f"attention_ensemble(learners=4, {ATTENTION}", WEIGHTS),
    "ABE-8": (f"attention_ensemble(learners=8, {ATTENTION}", WEIGHTS),
    PAPERS_WEIGHT: (f"attention_ensemble(learners=4, {ATTENTION}", WEIGHTS[:1]),
    "ABE-4 without divergence": (f"attention_ensemble(learners=4, {ATTENTION}", NONE),
    "4-heads": (f"multi_head(learners=4, {CUT}", NONE),
    "8-heads": (f"multi_head(learners=8, {CUT}", NONE),
    "4-heads+att": (f"multi_head(learners=4, attention=True, {ATTENTION}", NONE),
    "4-tails": (f"multi_tail(learners=4, {CUT}", WEIGHTS),
    "ABE-4, given pairs": (f"attention_ensemble(learners=4, {ATTENTION}", WEIGHTS),
    "ABE-1, masks from 0.95": (f"attention_ensemble(learners=1, {NEAR_ONE}", NONE),
    "ABE-4, masks from 0.95": (f"attention_ensemble(learners=4, {NEAR_ONE}", WEIGHTS),
}
CHANGES = {
    name: [*PAIRS, GIVEN_PAIRS if name.endswith("given pairs") else ALL_PAIRS, f"--backbone={BACKBONE}"]
    for name in METHODS
}
# Rows that only studies of other datasets have.
ELSEWHERE = ("8-heads",)
# These rows train until they no longer improve.
LONGER = ["1-head", "ABE-1", "ABE-4", "ABE-8", PAPERS_WEIGHT, "ABE-4 without divergence"]
LONGER += ["4-heads", "4-heads+att", "4-tails"]
FOLLOW = {}
add_rows(CHANGES, FOLLOW, LONGER, FOUR_TIMES, "--steps=3200")
# Randomly initialized layers have a higher learning rate than pretrained ones.
FASTER = ", new layers ten times as fast"
NEW_LAYERS = {"1-head": "embedding=10", "ABE-1": "masks=10,embedding=10", "ABE-4": "masks=10,embedding=10"}
for name, rates in NEW_LAYERS.items():
    add_rows(CHANGES, FOLLOW, [name], FASTER, f"--lr_multipliers={rates}")
# The images of 64 px, enlarged: a network with ImageNet weights works better with larger images.
add_rows(CHANGES, FOLLOW, ("1-head", "4-heads", "4-heads+att", "ABE-4"), LARGER, "--image_size=96")
# The second row minus the first: the effect of several learners and of each part.
PARTS = [
    ("ABE-1", "ABE-4"),
    ("ABE-4 without divergence", "ABE-4"),
    ("1-head", "ABE-1"),
    ("1-head", "ABE-4"),
    ("4-heads", "ABE-4"),
    ("4-heads+att", "ABE-4"),
    ("4-tails", "ABE-4"),
    ("ABE-4", "ABE-8"),
    ("1-head", "4-heads"),
    ("4-heads", "4-heads+att"),
    ("4-heads", "4-tails"),
]
PARTS += [
    (name, PAPERS_WEIGHT) for name in ("ABE-4", "ABE-4 without divergence", "ABE-1", "1-head", "4-heads", "4-heads+att")
]
DIFFERENCES = [
    *PARTS,
    ("ABE-4", "ABE-4, given pairs"),
    ("ABE-1", "ABE-1, masks from 0.95"),
    ("ABE-4", "ABE-4, masks from 0.95"),
    *((name, f"{name}{FASTER}") for name in NEW_LAYERS),
    (f"1-head{FASTER}", f"ABE-1{FASTER}"),
    (f"1-head{FASTER}", f"ABE-4{FASTER}"),
    *((f"{first}{FOUR_TIMES}", f"{second}{FOUR_TIMES}") for first, second in PARTS),
    *((f"1-head{LARGER}", f"{name}{LARGER}") for name in ("4-heads", "4-heads+att", "ABE-4")),
    *((f"4-heads{LARGER}", f"{name}{LARGER}") for name in ("4-heads+att", "ABE-4")),
]


def settings_of(method, weights):
    """Returns four settings: two learning rates with two weights of the divergence loss, or four rates with one."""
    tried = itertools.product(RATES if len(weights) > 1 else MORE_RATES, weights)
    return [[f"--optimizer=adam(learning_rate={rate})", method_flag(method, weight)] for rate, weight in tried]


def method_flag(method, weight):
    return f"--method={method}, divergence_weight={weight})"


def cosine_of_self_pairs(results, run_dirs):
    learners = learners_of(results)
    if not learners:
        return ""
    return Number(statistics.mean(each["pair_cosines"]["mean_self"] for each in learners), ".3f")


COLUMNS = {
    **BEST_AND_LAST,
    "a learner's Recall@1": recall_alone,
    "cosine of self pairs": cosine_of_self_pairs,
    **FINISHED,
}

STUDY = Study(
    flagfile=FLAGFILE,
    rows={name: flags for name, flags in CHANGES.items() if name not in ELSEWHERE},
    columns=COLUMNS,
    folder="runs/emoji_ensembles",
    settings={name: settings_of(*method) for name, method in METHODS.items() if name not in ELSEWHERE},
    searching=SEARCHING,
    follow=FOLLOW,
    differences=DIFFERENCES,
)
