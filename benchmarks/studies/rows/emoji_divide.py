"""Divide and Conquer and its controls on the emoji dataset: `python -m benchmarks.study emoji_divide`.

Trains configs/emoji.flags with each of the changes below: a single embedding, K slices that each learn from a cluster
of the data, and controls that change one thing at a time. Validation classes select the learning rate of each row with
one seed and 400 steps. A row with four times the steps or with larger images uses the learning rate of the row without.
It prints a table of all learning rates and a table over all seeds, in Markdown. The second one has the mean ± standard
deviation, in percent, of Recall@1 on test classes of the best and the last models and of the learners of the best
models alone. It also has the correlation of the learners, the number of steps in which a learner trained and the mean
distances of negative pairs within and between clusters (Figure 8 of the paper), both at the end of the run, the number
of steps until the best model, and the gain in Recall@1 on validation classes in the last quarter of the steps, which is
near 0 if a run has converged. Differences between the best models of rows follow below the table. It keeps the runs and
does not train a complete run again. docs/datasets.md describes the images, and --data_dir is their folder.
"""

from benchmarks.studies.added_rows import FOUR_TIMES, LARGER, add_rows
from benchmarks.studies.rows.divide_and_conquer import OF_LEARNERS, SLICES, divided
from tfdml.run.study.study import Study
from tfdml.run.study.tables import BEST_AND_LAST, FINISHED

FLAGFILE = "configs/emoji.flags"
SETTINGS = [[f"--optimizer=adam(learning_rate={rate})"] for rate in ("0.0001", "0.0003", "0.001")]
SEARCHING = ("--steps=400",)
MULTI_HEAD = ["--method=multi_head(learners=4, branch='output')"]
# Written as in `emoji_losses`, so that both studies share runs in one folder.
TRIPLET = "--loss=triplet(margin=0.1)"
MARGIN = "--loss=margin(beta=1.2)"
# The schedule of the authors' code, 80 and 190 of 200 epochs, scaled to the 16 epochs of 800 steps.
AUTHORS = "hold_others=False, cluster_order='round_robin', merge_loss_at=6, merge_at=15"
# Batches from a cluster are in proportion to the images per class, not equally many for each class.
BY_IMAGES = "--sampler=proportional_pxk(groups=16, per_class=4)"
# The same number of images per step as four learners that train at once.
FOUR_BATCHES = "--sampler=pxk(classes=64, per_class=4)"
CHANGES = {
    "one embedding": [TRIPLET],
    "K = 2": [*divided(learners=2), TRIPLET],
    "K = 4": [*divided(), TRIPLET],
    "K = 8": [*divided(learners=8), TRIPLET],
    # Random groups contain one or two of the five to seven images of a class, so 20% of the images are never drawn.
    "K = 4, random images": [*divided("data_split='random'"), TRIPLET],
    "K = 4, random classes": [*divided("data_split='random_classes'"), TRIPLET],
    "K = 4, clusters of neighboring subgroups": [*divided("data_split='labels'"), TRIPLET],
    "K = 4, in proportion to images": [*divided(), TRIPLET, BY_IMAGES],
    "K = 4, embedding not split": [*divided("split_embedding=False"), TRIPLET],
    "K = 4, turns on all data": [*divided("data_split='none'"), TRIPLET],
    "K = 4, the authors' schedule": [*divided(AUTHORS), TRIPLET],
    "K = 4, every slice on every batch": [*MULTI_HEAD, TRIPLET],
    "K = 4, unit slices, one loss": [*divided("divide_at=1000000"), TRIPLET],
    "one embedding, margin loss": [MARGIN],
    "K = 4, margin loss": [*divided(), MARGIN],
    "K = 4, turns on all data, margin loss": [*divided("data_split='none'"), MARGIN],
    # These rows see as many images as rows with four times the steps, because each step has a batch for each learner.
    "K = 4, at once": [*divided("simultaneous=True"), TRIPLET],
    "K = 4, at once on all data": [*divided("simultaneous=True, data_split='none'"), TRIPLET],
    "K = 4, every slice on every batch of 256": [*MULTI_HEAD, TRIPLET, FOUR_BATCHES],
}
FOLLOW = {}
MAIN = ("one embedding", "K = 4", "K = 4, turns on all data")
add_rows(CHANGES, FOLLOW, MAIN, FOUR_TIMES, "--steps=3200")
# The images of 64 px, enlarged: a network with ImageNet weights works better with larger images.
add_rows(CHANGES, FOLLOW, (*MAIN, "K = 4, embedding not split"), LARGER, "--image_size=96")
# The second row minus the first: the effect of Divide and Conquer and of each of its parts.
DIFFERENCES = [
    ("one embedding", "K = 4"),
    ("one embedding, margin loss", "K = 4, margin loss"),
    (f"one embedding{FOUR_TIMES}", f"K = 4{FOUR_TIMES}"),
    ("K = 4, turns on all data", "K = 4"),
    ("K = 4, turns on all data, margin loss", "K = 4, margin loss"),
    (f"K = 4, turns on all data{FOUR_TIMES}", f"K = 4{FOUR_TIMES}"),
    ("K = 4, random images", "K = 4"),
    ("K = 4, random classes", "K = 4"),
    ("K = 4, clusters of neighboring subgroups", "K = 4"),
    ("K = 4, turns on all data", "K = 4, random classes"),
    ("K = 4", "K = 4, in proportion to images"),
    ("one embedding", "K = 4, in proportion to images"),
    ("K = 4", "K = 4, the authors' schedule"),
    ("K = 4", "K = 4, at once"),
    ("one embedding", "K = 4, embedding not split"),
    (f"one embedding{LARGER}", f"K = 4{LARGER}"),
    (f"one embedding{LARGER}", f"K = 4, embedding not split{LARGER}"),
    (f"K = 4, turns on all data{LARGER}", f"K = 4{LARGER}"),
    ("one embedding", "K = 4, every slice on every batch"),
    ("K = 4, at once on all data", "K = 4, at once"),
    ("K = 4, every slice on every batch of 256", "K = 4, at once"),
]
COLUMNS = {**BEST_AND_LAST, **OF_LEARNERS, **FINISHED}

STUDY = Study(
    flagfile=FLAGFILE,
    rows=CHANGES,
    columns=COLUMNS,
    folder="runs/emoji_divide",
    settings={name: SETTINGS for name in CHANGES if name not in FOLLOW},
    searching=SEARCHING,
    follow=FOLLOW,
    learners=SLICES,
    differences=DIFFERENCES,
)
