"""Attention-based Ensemble and the models that its paper compares: `python -m benchmarks.study ensembles`.

Trains configs/toycars_abe.flags with each of the methods below and each seed, with the same number of steps and the
same batches. It prints a Markdown table with the mean ± standard deviation over seeds, in percent, of Recall@1 of the
final model and of its learners alone, and the mean cosine of self pairs. It keeps the runs and does not train a
complete run again. This command trains two rows three times as long:
`python -m benchmarks.study ensembles --row=ABE-8 --row=8-heads --epochs=18 --eval_every=6`.
"""

import statistics

from tfdml.run.study.study import Number, Study
from tfdml.run.study.tables import MetricOf, measured_learners, recall_of_learners

FLAGFILE = "configs/toycars_abe.flags"
CUT = "branch='stage2'"
ATTENTION = f"{CUT}, attention_depth=1"
# The rows of Tables 1 to 3 of the paper and of Table 1 of its supplement. The row with 10% of the divergence loss is
# our own: we tried it when the full divergence loss turned out to be too strong for this task.
METHODS = {
    "ABE-1": f"attention_ensemble(learners=1, {ATTENTION})",
    "ABE-2": f"attention_ensemble(learners=2, {ATTENTION})",
    "ABE-4": f"attention_ensemble(learners=4, {ATTENTION})",
    "ABE-8": f"attention_ensemble(learners=8, {ATTENTION})",
    "ABE-8, a tenth of the divergence": f"attention_ensemble(learners=8, {ATTENTION}, divergence_weight=0.1)",
    "ABE-8 without divergence": f"attention_ensemble(learners=8, {ATTENTION}, divergence_weight=0.0)",
    "1-head": f"multi_head(learners=1, {CUT})",
    "4-heads": f"multi_head(learners=4, {CUT})",
    "8-heads": f"multi_head(learners=8, {CUT})",
    "8-heads with divergence": f"multi_head(learners=8, {CUT}, divergence_weight=1.0)",
    "8-heads+att": f"multi_head(learners=8, attention=True, {ATTENTION})",
    "8-tails": f"multi_tail(learners=8, {CUT})",
}
CHANGES = {name: [f"--method={method}"] for name, method in METHODS.items()}


def recall_of_several(results, run_dirs):
    learners = measured_learners(run_dirs)
    return recall_of_learners(learners) if all(learners) else ""


def cosine_of_self_pairs(results, run_dirs):
    learners = measured_learners(run_dirs)
    if not all(learners):
        return ""
    return Number(statistics.mean(each["pair_cosines"]["mean_self"] for each in learners), ".2f")


COLUMNS = {
    "Recall@1": MetricOf("metrics"),
    "a learner's Recall@1": recall_of_several,
    "cosine of self pairs": cosine_of_self_pairs,
}

STUDY = Study(
    flagfile=FLAGFILE,
    rows=CHANGES,
    columns=COLUMNS,
    folder="runs/ensembles",
    which="final",
    learners=1,
)
