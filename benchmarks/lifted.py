"""Lifted Structure with and without hard neighbors, and beside its baselines: `python -m benchmarks.lifted`.

Trains configs/toycars_lifted.flags with each of the changes below and each seed, for as many steps with batches of as
many images, and prints a Markdown table: mean ± standard deviation over seeds, in percent, of Recall@1, NMI and F1 of
the final model, and what Recall@1 gained in the last quarter of the steps, near 0 where a run is finished. Runs are
kept; see `benchmarks.runs`.
"""

from benchmarks.rows import compare
from benchmarks.runs import gained_late, metric_of, spread

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
HEADS = ["", "Recall@1", "NMI", "F1", "gain in the last quarter"]


def row(results, run_dirs):
    metrics = [metric_of("metrics", results, name) for name in ("recall_at_1", "nmi", "f1")]
    return [*metrics, spread(gained_late(run_dirs))]


if __name__ == "__main__":
    compare(__doc__, FLAGFILE, CHANGES, "runs/lifted", HEADS, row, which="final")
