"""Divide and Conquer and its controls on the emoji set: `python -m benchmarks.emoji_divide --data_dir=data/emoji`.

Trains configs/emoji.flags with each of the changes below: one embedding, K slices of it that each learn from a cluster
of the data, and what lies between these, one thing changed at a time. Validation chooses the learning rate of each row
with one seed and half of the steps. Prints a Markdown table of all rates, and one of the best models of all seeds: mean
± standard deviation, in percent, of Recall@1 on test classes, of its learners alone, how these correlate, the steps
that a learner learned in, the mean distances of negative pairs within clusters and between them (Figure 8 of the
paper), steps to the best model, and what Recall@1 gained in the last quarter of the steps, near 0 where a run is
finished. Below the table is how much better K-means clusters are than some rows. Runs are kept; see
`benchmarks.runs`. docs/emoji.md is about the images.
"""

from benchmarks.divide_and_conquer import GAINS, OF_LEARNERS, SLICES, divided, of_learners
from benchmarks.rows import compare
from benchmarks.runs import gained_late, spread, steps_to_best

FLAGFILE = "configs/emoji.flags"
SETTINGS = [[f"--optimizer=adam(learning_rate={rate})"] for rate in ("0.0001", "0.0003")]
SEARCHING = ("--steps=400",)
MULTI_HEAD = ["--method=multi_head(learners=4, branch='output')"]
# As `benchmarks.emoji_losses` writes them, so that both studies share runs in one folder.
MULTI_SIMILARITY = "--loss=multi_similarity"
MARGIN = "--loss=margin(beta=1.2)"
TRIPLET = "--loss=triplet(margin=0.2)"
# The schedule of the authors' code, 80 and 190 of 200 epochs, scaled to the 16 epochs that 800 steps are.
AUTHORS = "hold_others=False, cluster_order='round_robin', merge_loss_at=6, merge_at=15"
# As many steps for each of four learners as the one embedding has.
FOUR_TIMES = "--steps=3200"
CHANGES = {
    "one embedding": [MULTI_SIMILARITY],
    "K = 2": divided(learners=2),
    "K = 4": divided(),
    "K = 8": divided(learners=8),
    "K = 4, random clusters": divided("data_split='random'"),
    "K = 4, clusters of neighboring subgroups": divided("data_split='labels'"),
    "K = 4, embedding not split": divided("split_embedding=False"),
    "K = 4, turns on all data": divided("data_split='none'"),
    "K = 4, the authors' schedule": [*divided(AUTHORS), "--steps=800"],
    "K = 4, every slice on every batch": MULTI_HEAD,
    "K = 4, unit slices, one loss": divided("divide_at=1000000"),
    "one embedding, margin loss": [MARGIN],
    "K = 4, margin loss": [*divided(), MARGIN],
    "one embedding, semi-hard triplets": [TRIPLET],
    "K = 4, semi-hard triplets": [*divided(), TRIPLET],
    "one embedding, four times the steps": [MULTI_SIMILARITY, FOUR_TIMES],
    "K = 4, four times the steps": [*divided(), FOUR_TIMES],
    "K = 4, turns on all data, four times the steps": [*divided("data_split='none'"), FOUR_TIMES],
    # As many images as with four times the steps: each step has a batch for each learner.
    "K = 4, at once": divided("simultaneous=True"),
    "K = 4, at once on all data": divided("simultaneous=True, data_split='none'"),
}
# What is longer, or at once, has the learning rate of the same row, which is not searched again.
FOLLOW = {name: name.removesuffix(", four times the steps") for name in CHANGES if name.endswith("the steps")}
FOLLOW |= {
    "K = 4, the authors' schedule": "K = 4",
    "K = 4, at once": "K = 4",
    "K = 4, at once on all data": "K = 4, turns on all data",
}
HEADS = ["", "Recall@1", *OF_LEARNERS, "steps to the best", "gained late"]


def row(results, run_dirs):
    recall = spread([result["best"]["recall_at_1"] for result in results])
    return [recall, *of_learners(results, run_dirs), steps_to_best(results), spread(gained_late(run_dirs))]


if __name__ == "__main__":
    settings = {name: SETTINGS for name in CHANGES if name not in FOLLOW}
    more = {"searching": SEARCHING, "follow": FOLLOW, "learners": SLICES, "differences": GAINS}
    compare(__doc__, FLAGFILE, CHANGES, "runs/emoji_divide", HEADS, row, settings=settings, **more)
