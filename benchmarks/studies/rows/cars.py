"""Losses and methods on half of Cars196: `python -m benchmarks.study cars --data_dir=data/cars`.

Trains configs/cars_half.flags, the papers' own classes with about 41 images each, with losses and methods of the
studies on emoji. Validation chooses among four settings of each row, as many as there, with one seed and 400 steps.
Prints a Markdown table of all settings, and one of all seeds: mean ± standard deviation, in percent, on test classes,
of the best and the last models, steps to the best one, and what Recall@1 on validation classes gained in the last
quarter of the steps, near 0 where a run is finished. Below the table are differences between rows, of best models. Runs
are kept. docs/cars.md is about the images.
"""

from benchmarks.studies.losses_and_methods import FIRST, losses_and_methods

STUDY = losses_and_methods(
    "configs/cars_half.flags",
    "runs/cars",
    losses=(
        FIRST,
        "N-pair",
        "contrastive",
        "margin",
        "multi-similarity",
        "ranked list",
        "Proxy-NCA",
        "SoftTriple",
        "NormSoftmax",
        "Proxy-Anchor",
    ),
    ensembles=("1-head", "4-heads", "4-heads+att", "ABE-1", "ABE-2", "ABE-4", "ABE-4 without divergence", "ABE-8"),
    levels=("H", "L, H", "L, M, H", "H, 384 dimensions"),
    differences=[
        ("N-pair", "Proxy-NCA"),
        (FIRST, "N-pair"),
        (FIRST, "ranked list"),
        ("ABE-4 without divergence", "ABE-4"),
        ("ABE-4", "ABE-8"),
        ("ABE-2", "ABE-4"),
    ],
)
