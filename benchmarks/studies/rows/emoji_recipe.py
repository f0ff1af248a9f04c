"""The recipe of a folder of photos on the emoji set, in small: `python -m benchmarks.study emoji_recipe`.

Trains configs/emoji.flags with three levels that start from WCCN, once with the recipe's loss and once with one
on proxies, each with the setting that validation chose of four for one embedding in `emoji_losses`. Prints the tables
of that study. docs/emoji.md is about the images; --data_dir says where they are.
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
