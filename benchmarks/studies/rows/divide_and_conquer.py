"""Divide and Conquer, a single embedding and the paper's ablations: `python -m benchmarks.study divide_and_conquer`.

Trains configs/toycars_dnc.flags with each of the changes below and each seed. Unless a row changes them, the number of
steps and the batch size are the same. It prints a Markdown table with the mean ± standard deviation over seeds, in
percent, of Recall@1 of the final model and of its learners alone, the correlation of the learners, the number of steps
in which a learner trained, the mean distances of negative pairs within and between clusters (Figure 8 of the paper),
and the gain in Recall@1 in the last quarter of the steps, which is near 0 if a run has converged. For a single
embedding, slices of it count as learners, as in the paper's Table 7. Differences between rows follow below the table.
It keeps the runs and does not train a complete run again. This command uses classes that form groups, which differ in
other parts of the image: `python -m benchmarks.study divide_and_conquer "--dataset=toycars(grouped=True)"`.
"""

import statistics

from benchmarks.studies.added_rows import EIGHT_TIMES, FOUR_TIMES
from benchmarks.studies.columns import changed_clusters
from tfdml.run.study.runs import curve
from tfdml.run.study.study import Number, Study
from tfdml.run.study.tables import MetricOf, correlation, gained_late, recall_of_measured

FLAGFILE = "configs/toycars_dnc.flags"
SLICES = 4
# The number of epochs of the rows that merge learners at some epoch.
EPOCHS = "--epochs=8"
AUTHORS = "hold_others=False, cluster_order='round_robin', merge_loss_at=3, merge_at=7"
# Batches from a cluster are in proportion to the images per class, not equally many for each class.
BY_IMAGES = "--sampler=proportional_pxk(groups=8, per_class=4)"
# The same number of images per step as four learners that train at once.
FOUR_BATCHES = "--sampler=pxk(classes=32, per_class=4)"


def divided(arguments="", learners=4):
    more = f", {arguments}" if arguments else ""
    return [f"--method=divide_and_conquer(learners={learners}{more})"]


# The rows are from Figure 1 and Tables 6 and 7 of the paper. There are also controls that change one thing, the
# schedule of the authors' code scaled to 8 epochs, and learners that train at once.
CHANGES = {
    "one embedding": ["--method=single"],
    "K = 2": divided(learners=2),
    "K = 4": divided(),
    "K = 8": divided(learners=8),
    "K = 4, merged for the last two epochs": [*divided("merge_at=6"), EPOCHS],
    "K = 4, random clusters": divided("data_split='random'"),
    "K = 4, clusters of classes": divided("data_split='labels'"),
    "K = 4, in proportion to images": [*divided(), BY_IMAGES],
    "K = 4, random clusters, in proportion to images": [*divided("data_split='random'"), BY_IMAGES],
    "K = 4, embedding not split": divided("split_embedding=False"),
    "K = 4, unit slices, one loss": divided("divide_at=1000000"),
    "K = 4, every slice on every batch": ["--method=multi_head(learners=4, branch='stage4')"],
    "K = 4, turns on all data": divided("data_split='none'"),
    "K = 4, the authors' schedule": [*divided(AUTHORS), EPOCHS],
    # Each learner then has the same number of steps as the single embedding.
    f"K = 4{FOUR_TIMES}": [*divided(), "--epochs=32"],
    f"K = 4, turns on all data{FOUR_TIMES}": [*divided("data_split='none'"), "--epochs=32"],
    f"one embedding{FOUR_TIMES}": ["--method=single", "--epochs=32"],
    f"K = 4, in proportion to images{FOUR_TIMES}": [*divided(), BY_IMAGES, "--epochs=32"],
    f"one embedding{EIGHT_TIMES}": ["--method=single", "--epochs=64"],
    f"K = 4, in proportion to images{EIGHT_TIMES}": [*divided(), BY_IMAGES, "--epochs=64"],
    "one embedding, batches of 128": ["--method=single", FOUR_BATCHES],
    "K = 4, at once": divided("simultaneous=True"),
    "K = 4, at once on all data": divided("simultaneous=True, data_split='none'"),
    "K = 4, every slice on every batch of 128": ["--method=multi_head(learners=4, branch='stage4')", FOUR_BATCHES],
}
KINDS = ("mean_within", "mean_between")
# The second row minus the first: the effects of K-means, sampling and splitting.
DIFFERENCES = [
    ("one embedding", "K = 4"),
    ("K = 4, random clusters", "K = 4"),
    ("K = 4", "K = 4, in proportion to images"),
    ("K = 4, random clusters, in proportion to images", "K = 4, in proportion to images"),
    ("one embedding", "K = 4, in proportion to images"),
    ("K = 4, turns on all data", "K = 4"),
    ("K = 4", "K = 4, embedding not split"),
    ("K = 4, clusters of classes", "K = 4"),
    ("K = 4", "K = 4, merged for the last two epochs"),
    (f"K = 4, turns on all data{FOUR_TIMES}", f"K = 4{FOUR_TIMES}"),
    (f"one embedding{FOUR_TIMES}", f"K = 4{FOUR_TIMES}"),
    (f"one embedding{FOUR_TIMES}", f"K = 4, in proportion to images{FOUR_TIMES}"),
    (f"K = 4{FOUR_TIMES}", f"K = 4, in proportion to images{FOUR_TIMES}"),
    (f"one embedding{EIGHT_TIMES}", f"K = 4, in proportion to images{EIGHT_TIMES}"),
    ("one embedding, batches of 128", f"K = 4{FOUR_TIMES}"),
    ("K = 4, every slice on every batch of 128", "K = 4, at once"),
    ("K = 4, at once on all data", "K = 4, at once"),
]


def clusters_of(results):
    return [result.get("clusters") or {} for result in results]


def steps_of_learners(results, run_dirs):
    # Without clusters, every learner trains in every step.
    steps = [
        step
        for each, run_dir in zip(clusters_of(results), run_dirs, strict=True)
        for step in each.get("steps_of_learners") or [max(curve(run_dir))]
    ]
    return Number(statistics.mean(steps), ",.0f")


def distances_of_negatives(results, run_dirs):
    distances = [each["negative_distances"] for each in clusters_of(results) if each.get("negative_distances")]
    means = [statistics.mean(each[kind] for each in distances) for kind in KINDS] if distances else []
    return ", ".join(f"{mean:.2f}" for mean in means)


# For a single embedding, slices count as learners.
OF_LEARNERS = {
    "a learner's Recall@1": recall_of_measured,
    "correlation": correlation,
    "a learner's steps": steps_of_learners,
    "changed": changed_clusters,
    "negatives within, between": distances_of_negatives,
}
COLUMNS = {
    "Recall@1": MetricOf("metrics"),
    "Recall@8": MetricOf("metrics", "recall_at_8"),
    **OF_LEARNERS,
    "gain in the last quarter": gained_late,
}

STUDY = Study(
    flagfile=FLAGFILE,
    rows=CHANGES,
    columns=COLUMNS,
    folder="runs/divide_and_conquer",
    which="final",
    learners=SLICES,
    differences=DIFFERENCES,
)
