"""Measures labels saved by `tfdml.suggest`: `python -m benchmarks.studies.labels_saved emoji=emoji.npz cars=cars.npz`.

The .npz files are from `benchmarks.studies.frozen_features`. Two thirds of the images are a pool, of which 50 are
labeled, and the others are the test. Labels are added in rounds of 100, chosen by `suggested` or at random. After each
budget, the test images get the label of the nearest labeled image. For each budget, the command finds the number of
random labels that reach the same accuracy, and prints the share of labels that are saved, with a 95% confidence
interval over divisions. It writes docs/records/labels_saved.json; without files, it prints the recorded table.
"""

from pathlib import Path

import numpy as np

from benchmarks.markdown import markdown
from benchmarks.studies.feature_files import record_of
from tfdml.evaluation.statistics import bootstrap_intervals
from tfdml.neighbors.nearest import unit_length
from tfdml.neighbors.suggestions import suggested

RECORD = Path(__file__).parents[2] / "docs/records/labels_saved.json"
START, ROUND, BUDGETS, TIMES = 50, 100, (100, 200, 400), 8
# Name to the argument `decisions`.
KINDS = {"decisions=0": 0.0, "decisions=0.5": 0.5}


def accuracies(vectors, labels, seed):
    """Returns the accuracy after each budget by name, and the accuracies of random labels by their number."""
    random = np.random.default_rng(seed)
    order = random.permutation(len(labels))
    pool, test = np.split(order, [2 * len(order) // 3])
    similar, own = vectors[test] @ vectors[pool].T, labels[pool]
    drawn = random.permutation(len(pool))

    def accuracy(rows):
        return float(np.mean(own[rows][similar[:, rows].argmax(axis=1)] == labels[test]))

    found = {}
    for name, decisions in KINDS.items():
        rows, found[name] = drawn[:START], []
        for budget in BUDGETS:
            while len(rows) < START + budget:
                known = np.full(len(pool), None, object)
                known[rows] = own[rows].astype(str)
                count = min(ROUND, START + budget - len(rows))
                options = {"decisions": decisions, "duplicates": 2.0, "seed": seed}
                rows = np.append(rows, suggested(vectors[pool], known.tolist(), count, **options).rows)
            found[name].append(accuracy(rows))
    numbers = np.unique(np.linspace(START, len(pool), 40).astype(int))
    return found, numbers, np.array([accuracy(drawn[:number]) for number in numbers])


def measured(embeddings, labels, times=TIMES):
    """Returns the accuracy of random labels, and accuracies and shares of saved labels with intervals by name."""
    vectors = unit_length(np.asarray(embeddings, np.float32))
    runs = [accuracies(vectors, labels, seed) for seed in range(times)]
    numbers, random = runs[0][1], np.mean([curve for *_, curve in runs], axis=0)
    # The mean curve is smooth, so that it can be inverted.
    rising = np.maximum.accumulate(random)
    budgets = np.array(BUDGETS)
    result = {"random": np.interp(START + budgets, numbers, random).tolist()}
    for name in KINDS:
        reached = np.array([found[name] for found, *_ in runs])
        needed = np.interp(reached, rising, numbers) - START
        saved = 1 - budgets / np.maximum(needed, 1)
        columns = {str(budget): column for budget, column in zip(BUDGETS, saved.T, strict=True)}
        intervals = bootstrap_intervals(columns)
        result[name] = {
            "accuracy": reached.mean(axis=0).tolist(),
            "saved": saved.mean(axis=0).tolist(),
            "interval": [intervals[str(budget)] for budget in BUDGETS],
        }
    return result


def table(record):
    """Returns the Markdown table of a record."""
    rows = []
    for dataset, found in record.items():
        rows.append([dataset, "random", *(f"{each:.1%}" for each in found["random"])])
        for name in KINDS:
            about = found[name]
            cells = [
                f"{accuracy:.1%}, saves {saved:.0%} ({low:.0%} to {high:.0%})"
                for accuracy, saved, (low, high) in zip(
                    about["accuracy"], about["saved"], about["interval"], strict=True
                )
            ]
            rows.append([dataset, f"`{name}`", *cells])
    return markdown(["Dataset", "Choice", *(f"{budget} labels" for budget in BUDGETS)], rows)


def measured_of_file(name, path):
    """Returns the entry of the record for a file of features."""
    file = np.load(path)
    return {name: measured(file["embeddings"], file["labels"])}


def main():
    print(table(record_of(__doc__, RECORD, measured_of_file)))


if __name__ == "__main__":
    main()
