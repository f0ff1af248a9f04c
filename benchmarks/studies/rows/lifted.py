"""Lifted Structure with and without hard negatives, and its baselines: `python -m benchmarks.study lifted`.

Trains configs/toycars_lifted.flags with each of the changes below and each seed, with the same number of steps and the
same batch size. It prints a Markdown table with the mean ± standard deviation over seeds, in percent, of Recall@1, NMI
and F1 of the final model, and the gain in Recall@1 in the last quarter of the steps, which is near 0 if a run has
converged. It keeps the runs and does not train a complete run again.
"""

from tfdml.run.study.study import Study
from tfdml.run.study.tables import MetricOf, gained_late

FLAGFILE = "configs/toycars_lifted.flags"
# No run has that many epochs, so the negatives stay random.
RANDOM = "--sampler=hard_neighbors(pairs=8, refresh_every=1000000)"
# Each row changes one thing, except the baselines, which have batches of pairs or triplets as in the paper, but
# smaller.
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
