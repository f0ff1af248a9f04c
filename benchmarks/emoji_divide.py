"""Divide and Conquer and its controls on the emoji set: `python -m benchmarks.emoji_divide --data_dir=data/emoji`.

Trains configs/emoji.flags with each of the changes below: one embedding, K slices of it that each learn from a cluster
of the data, and what lies between these, one thing changed at a time. Validation chooses the learning rate of each row
with one seed. Prints a Markdown table of all rates, and one of the best models of all seeds: mean ± standard deviation,
in percent, of Recall@1 on test classes, of its learners alone, how these correlate, steps to the best model, and what
Recall@1 gained in the last quarter of the steps, near 0 where a run is finished. Where learners take turns, each learns
from a K-th of the steps; as many steps for each: `--steps` K times as high. Runs are kept; see `benchmarks.runs`.
docs/emoji.md is about the images.
"""

import statistics

from benchmarks.divide_and_conquer import divided, slices_of
from benchmarks.rows import compare
from benchmarks.runs import gained_late, recall_of_learners, spread, steps_to_best

FLAGFILE = "configs/emoji.flags"
SETTINGS = [[f"--optimizer=adam(learning_rate={rate})"] for rate in ("0.0001", "0.0003", "0.001")]
MULTI_HEAD = ["--method=multi_head(learners=4)"]
# Images come equally often, and not classes.
BY_IMAGES = "--sampler=proportional_pxk(groups=16, per_class=4)"
MARGIN = "--loss=margin(beta=1.2, margin=0.2)"
TRIPLET = "--loss=triplet(margin=0.2)"
CHANGES = {
    "one embedding": [],
    "K = 2": divided(learners=2),
    "K = 4": divided(),
    "K = 8": divided(learners=8),
    "K = 4, random clusters": divided("data_split='random'"),
    "K = 4, clusters of subgroups": divided("data_split='labels'"),
    "K = 4, turns on all data": divided("data_split='none'"),
    "K = 4, every slice on every batch": MULTI_HEAD,
    "K = 4, unit slices, one loss": divided("divide_at=1000000"),
    "K = 4, at once": divided("simultaneous=True"),
    "K = 4, at once on all data": divided("simultaneous=True, data_split='none'"),
    "K = 4, in proportion to images": [*divided(), BY_IMAGES],
    "K = 4, random clusters, in proportion to images": [*divided("data_split='random'"), BY_IMAGES],
    "one embedding, margin loss": [MARGIN],
    "K = 4, margin loss": [*divided(), MARGIN],
    "one embedding, semi-hard triplets": [TRIPLET],
    "K = 4, semi-hard triplets": [*divided(), TRIPLET],
}
HEADS = ["", "Recall@1", "a learner's Recall@1", "correlation", "steps to the best", "gained late"]


def row(results, run_dirs):
    recall = spread([result["best"]["recall_at_1"] for result in results])
    learners = [result.get("learners") or slices_of(run_dir) for result, run_dir in zip(results, run_dirs, strict=True)]
    correlation = f"{statistics.mean(each['correlation'] for each in learners):.3f}"
    late = spread(gained_late(run_dirs))
    return [recall, spread(recall_of_learners(learners)), correlation, steps_to_best(results), late]


if __name__ == "__main__":
    compare(__doc__, FLAGFILE, CHANGES, "runs/emoji_divide", HEADS, row, settings=dict.fromkeys(CHANGES, SETTINGS))
