"""Losses and methods on the Omniglot set: `python -m benchmarks.study omniglot --data_dir=data/omniglot`.

Trains configs/omniglot.flags with losses and methods of the studies on emoji, to see what carries over to classes of
twenty images. Validation chooses among four settings of each row, as many as there, with one seed and 400 steps. Prints
a Markdown table of all settings, and one of all seeds: mean ± standard deviation, in percent, on test classes, of the
best and the last models, steps to the best one, and what Recall@1 on the validation alphabet gained in the last quarter
of the steps, near 0 where a run is finished. Below the table are differences between rows, of best models. Runs are
kept. docs/omniglot.md is about the images.
"""

from benchmarks.studies.losses_and_methods import BEGUN_FOLLOW, BEGUN_ROWS, FIRST, losses_and_methods

STUDY = losses_and_methods(
    "configs/omniglot.flags",
    "runs/omniglot",
    losses=(FIRST, "N-pair", "contrastive", "Proxy-NCA", "SoftTriple", "NormSoftmax", "Proxy-Anchor"),
    ensembles=("1-head", "4-heads", "4-heads+att", "ABE-1", "ABE-4"),
    # Ranked list loss with one level, with three, and with as many dimensions.
    levels=("H", "L, M, H", "H, 384 dimensions"),
    more=BEGUN_ROWS,
    follow=BEGUN_FOLLOW,
    differences=[tuple(BEGUN_ROWS)],
)
