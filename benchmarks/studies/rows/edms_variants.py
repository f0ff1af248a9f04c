"""Variants of EDMS from its Table 2, and numbers of members: `python -m benchmarks.study edms_variants`.

Trains configs/toycars_edms.flags with each of the changes below and each seed, with the same number of steps and the
same batches. First, it trains a single member of each row with the same number of settings, and validation classes
select among them: the learning rate, and a factor for all similarities, which the paper does not have, or the α of
random walks. Rows with another K or other dimensions use the settings of the full system. It prints a Markdown table of
these settings and one with the mean ± standard deviation over seeds, in percent: Recall@1 of a single member (the mean
over the members), Recall@1 of several members together (Figure 4 of the paper), NMI of all members, and their
correlation. It uses the final models. It keeps the runs and does not train a complete run again. This command trains
only Figure 4 (left): `python -m benchmarks.study edms_variants --row="EDMS (RW, P*), 10 members"`.
"""

import itertools
from functools import partial

from tfdml.run.study.study import Spread, Study
from tfdml.run.study.tables import MetricOf, correlation, measured_learners, recall_of_measured

FLAGFILE = "configs/toycars_edms.flags"


def walks(printed, described):
    """Returns the arguments of two walks, each with its α and its scale."""
    return [f"restart=0.8, scale={printed}", f"restart=0.2, scale={described}"]


# The rows of Table 2, in its order, and one with more members. The flagfiles toycars_edms_*.flags have them with the
# settings that validation selected. Each has two settings: two scales without walks, and with walks α as equation (9)
# prints it and as the text describes it. Similarities along the manifold vary far less than dot products. The scales
# make them vary about as much as dot products with a scale of 20. A margin of 5e-4 would be larger than these
# differences.
DOT = ("scale=20.0", "scale=10.0")
LOSSES = {
    "EDMS (w/o)": [f"n_pair(margin=0.0005, {setting})" for setting in DOT],
    "EDMS (RW)": [f"manifold_n_pair(margin=0.0, {setting})" for setting in walks(6000.0, 6000.0)],
    "EDMS (RW, P)": [f"contextual_manifold(proxies='images', margin=0.0, {s})" for s in walks(40000.0, 10000.0)],
    "EDMS (RW-int, P*)": [f"intrinsic_manifold(proxies='hard', margin=0.0, {s})" for s in walks(8000.0, 10000.0)],
    "EDMS (P*)": [f"proxy_n_pair(proxies='hard', {setting})" for setting in DOT],
    "EDMS (RW, P*)": [f"contextual_manifold(proxies='hard', margin=0.0, {s})" for s in walks(40000.0, 10000.0)],
}
FULL = "EDMS (RW, P*)"
MORE = f"{FULL}, 10 members"
LOSSES[MORE] = LOSSES[FULL]
RATES = ("3e-4", "1e-3")


def settings_of(losses, rates=RATES):
    """Returns the settings of a row: each loss with each learning rate."""
    tried = itertools.product(losses, rates)
    return [[f"--loss={loss}", f"--optimizer=adam(learning_rate={rate}, epsilon=1e-8)"] for loss, rate in tried]


SETTINGS = {name: settings_of(losses) for name, losses in LOSSES.items()}
# Two members show the gain of several, and ten show how it continues.
CHANGES = {name: [f"--members={10 if name == MORE else 2}"] for name in LOSSES}
# Figure 4 (right). The flagfile has 50 meta-classes for 100 classes, and 64 dimensions.
CHANGES |= {f"{FULL}, K = {count}": ["--members=2", f"--meta_classes={count}"] for count in (10, 100)}
CHANGES |= {f"{FULL}, {size} dimensions": ["--members=2", f"--embedding_size={size}"] for size in (32, 128)}
FOLLOW = {name: FULL for name in CHANGES if name not in LOSSES}
# The second row minus the first: the effects of proxies, hard proxies and the contextual loss.
DIFFERENCES = [("EDMS (RW)", "EDMS (RW, P)"), ("EDMS (RW, P)", FULL), ("EDMS (RW-int, P*)", FULL)]
SEARCHING = ("--members=0", "--evaluate_on=validation")


def of_members(counts):
    """Returns columns of Recall@1 of a single member, as the mean over the members, and of several members together.

    Args:
        counts: Number of members for each column of several members. Cells are empty if a row has fewer members.
    """

    def together(count, results, run_dirs):
        first = [each["first"] for each in measured_learners(run_dirs)]
        return Spread([each[count - 1]["recall_at_1"] for each in first]) if count <= len(first[0]) else ""

    several = {f"of {count}": partial(together, count) for count in counts}
    return {"Recall@1 of a member": recall_of_measured, **several}


COLUMNS = {**of_members((2, 5, 10)), "NMI": MetricOf("metrics", "nmi"), "correlation": correlation}

STUDY = Study(
    flagfile=FLAGFILE,
    rows=CHANGES,
    columns=COLUMNS,
    folder="runs/edms",
    settings=SETTINGS,
    searching=SEARCHING,
    follow=FOLLOW,
    which="final",
    learners=1,
    differences=DIFFERENCES,
)
