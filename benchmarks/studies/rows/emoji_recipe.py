"""A small version of the default configuration on the emoji dataset: `python -m benchmarks.study emoji_recipe`.

Trains configs/emoji.flags with three levels that start from WCCN, once with the loss of the default configuration and
once with a proxy-based loss. Each uses the setting that validation selected from four for a single embedding in
`emoji_losses`. It prints the tables of that study. docs/datasets.md describes the images, and --data_dir is their
folder.
"""

from benchmarks.studies.losses_and_methods import BEGUN_FOLLOW, BEGUN_ROWS, losses_and_methods

STUDY = losses_and_methods(
    "configs/emoji.flags",
    "runs/emoji_recipe",
    losses=BEGUN_FOLLOW.values(),
    ensembles=(),
    levels=(),
    divided=(),
    more=BEGUN_ROWS,
    follow=BEGUN_FOLLOW,
    differences=[tuple(BEGUN_ROWS)],
)
