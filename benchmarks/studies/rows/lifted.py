"""Lifted Structure with and without hard neighbors, and beside its baselines: `python -m benchmarks.study lifted`.

Trains configs/toycars_lifted.flags with each of the changes below and each seed, for as many steps with batches of as
many images, and prints a Markdown table: mean ± standard deviation over seeds, in percent, of Recall@1, NMI and F1 of
the final model, and what Recall@1 gained in the last quarter of the steps, near 0 where a run is finished. Runs are
kept.
"""

from tfdml.run.study.study import Study
from tfdml.run.study.tables import MetricOf, gained_late

FLAGFILE = "configs/toycars_lifted.flags"
# More epochs than any run has: the neighbors stay random.
RANDOM = "--sampler=hard_neighbors(pairs=8, refresh_every=1000000)"
# Rows of the table: each changes one thing, but for the baselines, whose batches are of pairs or triplets as in the
# article, but smaller.
CHANGES = {
    "lifted": [],
    "lifted, random negatives": [RANDOM],
    "lifted, P×K": ["--sampler=pxk(classes=8, per_class=4)"],
    "lifted, the hardest negative only": ["--loss=lifted_structure(margin=1.0, form='hard')"],
    "lifted, unit length": ["--method=single"],
    "contrastive, given pairs": [
        "--loss=contrastive(margin=1.0, squared_negatives=True, pairs='given')",
        "--sampler=pairs(images=16)",
    ],
    "triplet, given triplets": ["--loss=triplet(margin=1.0, mining='given')", "--sampler=triplets(triplets=10)"],
}
COLUMNS = {
    "Recall@1": MetricOf("metrics"),
    "NMI": MetricOf("metrics", "nmi"),
    "F1": MetricOf("metrics", "f1"),
    "gain in the last quarter": gained_late,
}

STUDY = Study(
    flagfile=FLAGFILE,
    rows=CHANGES,
    columns=COLUMNS,
    folder="runs/lifted",
    which="final",
)
