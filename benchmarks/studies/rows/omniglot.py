"""Losses and methods on the Omniglot dataset: `python -m benchmarks.study omniglot --data_dir=data/omniglot`.

Trains configs/omniglot.flags with losses and methods from the emoji studies, to see which results generalize to classes
of twenty images. Validation classes select among four settings of each row, the same number as on emoji, with one seed
and 400 steps. It prints a table of all settings and a table over all seeds, in Markdown. The second one has the mean ±
standard deviation, in percent, of Recall@1 on test classes of the best and the last models, MAP@R of the best models,
the number of steps until them, and the gain in Recall@1 on validation classes in the last quarter of the steps, which
is near 0 if a run has converged. Differences between the best models of rows follow below the table. It keeps the runs
and does not train a complete run again. docs/datasets.md describes the images.
"""

from benchmarks.studies.losses_and_methods import BEGUN_FOLLOW, BEGUN_ROWS, FIRST, losses_and_methods

STUDY = losses_and_methods(
    "configs/omniglot.flags",
    "runs/omniglot",
    losses=(FIRST, "N-pair", "contrastive", "Proxy-NCA", "SoftTriple", "NormSoftmax", "Proxy-Anchor"),
    ensembles=("1-head", "4-heads", "4-heads+att", "ABE-1", "ABE-4"),
    # Ranked list loss with one level, with three levels, and with one level of the same total size.
    levels=("H", "L, M, H", "H, 384 dimensions"),
    more=BEGUN_ROWS,
    follow=BEGUN_FOLLOW,
    differences=[tuple(BEGUN_ROWS)],
)
