"""Divide and Conquer beside one embedding, and what the paper ablates: `python -m benchmarks.divide_and_conquer`.

Trains configs/toycars_dnc.flags with each of the methods below and each seed, for as many steps with the same batches'
size, and prints a Markdown table: mean ± standard deviation over seeds, in percent, of Recall@1 of the final model, of
its learners alone, and how they correlate. Of the one embedding as many slices stand for learners as most rows have
learners, as in the paper's Table 7. Runs are kept; see `benchmarks.runs`.
"""

import argparse
import statistics

from benchmarks.runs import markdown, results_of, run_dirs_of, spread
from tfdml.evaluation import diversity
from tfdml.experiment import trained

FLAGFILE = "configs/toycars_dnc.flags"
SLICES = 4
# Rows of the table, as Figure 1 and Tables 6 and 7 of the paper have them.
METHODS = {
    "one embedding": "single",
    "K = 2": "divide_and_conquer(learners=2)",
    "K = 4": "divide_and_conquer(learners=4)",
    "K = 8": "divide_and_conquer(learners=8)",
    "K = 4, random clusters": "divide_and_conquer(learners=4, data_split='random')",
    "K = 4, clusters of classes": "divide_and_conquer(learners=4, data_split='labels')",
    "K = 4, embedding not split": "divide_and_conquer(learners=4, split_embedding=False)",
}
HEADS = ["", "Recall@1", "Recall@8", "a learner's Recall@1", "correlation", "seconds"]


def slices_of(run_dir):
    """What slices of the one embedding of a run reach, as if they were learners."""
    experiment, model = trained(run_dir, "final")
    experiment.load_splits()
    test = experiment.test
    measure = experiment.protocol
    return diversity(experiment.embed(model, test), test.labels, SLICES, lambda each: measure(each, test))


def row(name, results, run_dirs):
    recall, wider = ([result["metrics"][f"recall_at_{k}"] for result in results] for k in (1, 8))
    learners = [result.get("learners") or slices_of(run_dir) for result, run_dir in zip(results, run_dirs, strict=True)]
    alone = [statistics.mean(one["recall_at_1"] for one in each["alone"]) for each in learners]
    correlation = statistics.mean(each["correlation"] for each in learners)
    seconds = statistics.mean(result["seconds"] for result in results)
    return [name, spread(recall), spread(wider), spread(alone), f"{correlation:.3f}", f"{seconds:.0f}"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="0,1,2", help="joined by commas")
    parser.add_argument("--runs", default="runs/divide_and_conquer", help="folder of the run directories")
    arguments = parser.parse_args()
    seeds, rows = arguments.seeds.split(","), []
    for name, method in METHODS.items():
        changes = [f"--method={method}"]
        results = results_of(FLAGFILE, changes, seeds, arguments.runs)
        rows.append(row(name, results, run_dirs_of(FLAGFILE, changes, seeds, arguments.runs)))
    print(markdown(HEADS, rows))


if __name__ == "__main__":
    main()
