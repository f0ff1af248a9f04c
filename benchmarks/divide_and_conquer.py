"""Divide and Conquer beside one embedding, and what the paper ablates: `python -m benchmarks.divide_and_conquer`.

Trains configs/toycars_dnc.flags with each of the methods below and each seed, for as many steps with the same batches'
size, and prints a Markdown table: mean ± standard deviation over seeds, in percent, of Recall@1 of the final model, of
its learners alone, and how they correlate. Of the one embedding as many slices stand for learners as most rows have
learners, as in the paper's Table 7. Runs are kept; see `benchmarks.runs`.
"""

import statistics

from benchmarks.runs import compare, recall_of_learners, spread
from tfdml.run.experiment import trained
from tfdml.run.result import learners_of

FLAGFILE = "configs/toycars_dnc.flags"
SLICES = 4
# Rows of the table, as Figure 1 and Tables 6 and 7 of the paper have them.
METHODS = {
    "one embedding": "single",
    "K = 2": "divide_and_conquer(learners=2)",
    "K = 4": "divide_and_conquer(learners=4)",
    "K = 8": "divide_and_conquer(learners=8)",
    "K = 4, merged for the last two epochs": "divide_and_conquer(learners=4, merge_at=6)",
    "K = 4, random clusters": "divide_and_conquer(learners=4, data_split='random')",
    "K = 4, clusters of classes": "divide_and_conquer(learners=4, data_split='labels')",
    "K = 4, embedding not split": "divide_and_conquer(learners=4, split_embedding=False)",
}
HEADS = ["", "Recall@1", "Recall@8", "a learner's Recall@1", "correlation"]


def slices_of(run_dir):
    """What slices of the one embedding of a run reach, as if they were learners."""
    experiment, model = trained(run_dir, "final")
    return learners_of(experiment, model, SLICES)["learners"]


def row(results, run_dirs):
    recall, wider = ([result["metrics"][f"recall_at_{k}"] for result in results] for k in (1, 8))
    learners = [result.get("learners") or slices_of(run_dir) for result, run_dir in zip(results, run_dirs, strict=True)]
    correlation = statistics.mean(each["correlation"] for each in learners)
    return [spread(recall), spread(wider), spread(recall_of_learners(learners)), f"{correlation:.3f}"]


if __name__ == "__main__":
    rows = {name: [f"--method={method}"] for name, method in METHODS.items()}
    compare(__doc__, FLAGFILE, rows, "runs/divide_and_conquer", HEADS, row)
