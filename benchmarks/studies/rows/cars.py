"""Losses and methods on half of Cars196: `python -m benchmarks.study cars --data_dir=data/cars`.

Trains configs/cars_half.flags, the papers' own classes with about 41 images each, with losses and methods of the
studies on emoji. Validation chooses among four settings of each row, as many as there, with one seed and 400 steps; a
row that changes one thing of another has its setting. Prints a Markdown table of all settings, and one of all seeds:
mean ± standard deviation, in percent, on test classes, of the best and the last models, MAP@R of the best, steps to it,
and what Recall@1 on validation classes gained in the last quarter of the steps, near 0 where a run is finished. Below
the table are differences between rows, of best models. Runs are kept. docs/cars.md is about the images.
"""

from benchmarks.studies.losses_and_methods import FIRST, losses_and_methods, rates
from benchmarks.studies.rows import emoji_divide, emoji_lifted, emoji_losses
from benchmarks.studies.rows.emoji_ensembles import PAPERS_WEIGHT
from benchmarks.studies.rows.emoji_ranked_list import RANKED_LIST, levels

BY_IMAGES = "K = 4, in proportion to images"
HARD, HARDEST = "hard neighbors", "hard neighbors, the hardest negative only"
SMALL_BASE = "multi-similarity, base of 0.5"
THREE, THREE_PROXIES, LONG = "N-pair, three levels", "Proxy-NCA, three levels", "N-pair, 384 dimensions"
MORE = {
    # That of its authors' code, not of its paper.
    SMALL_BASE: ["--loss=multi_similarity(beta=40.0, base=0.5)"],
    "M, H": [RANKED_LIST, *levels("MH")],
    "L, M": [RANKED_LIST, *levels("LM")],
    THREE: levels("LMH"),
    LONG: ["--embedding_size=384"],
    THREE_PROXIES: levels("LMH"),
    HARDEST: emoji_lifted.CHANGES[HARD],
    # As many images as the other rows' batches have.
    BY_IMAGES: [*emoji_divide.CHANGES[BY_IMAGES], "--sampler=proportional_pxk(groups=8, per_class=4)"],
}
FOLLOW = {
    **{name: "L, M, H" for name in ("L, H", "M, H", "L, M")},
    **{name: "H" for name in ("H, no margin", "H, no diameter", "H, negatives weighted equally")},
    **{name: "N-pair" for name in (THREE, LONG)},
    THREE_PROXIES: "Proxy-NCA",
    **{name: "K = 4" for name in ("K = 2", "K = 8", BY_IMAGES, "K = 4, random images")},
    **{name: "K = 4" for name in ("K = 4, random classes", "K = 4, every slice on every batch")},
}
# Of the lifted loss's settings, each with the hardest negative in place of the smooth bound.
OF_HARDEST = [
    [flag.replace("lifted_structure(", "lifted_structure(form='hard', ") for flag in setting]
    for setting in emoji_losses.settings_of(emoji_lifted.LOSS)
]
LOSSES = (
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
)
ENSEMBLES = (
    "1-head",
    "4-heads",
    "8-heads",
    "4-heads+att",
    "ABE-1",
    "ABE-2",
    "ABE-4",
    PAPERS_WEIGHT,
    "ABE-4 without divergence",
    "ABE-8",
)
LEVELS = (
    "H",
    "L, M, H",
    "H, 384 dimensions",
    "L, H",
    "H, no margin",
    "H, no diameter",
    "H, negatives weighted equally",
)
DIVIDED = ("one embedding", "K = 4", "K = 4, turns on all data", "K = 4, embedding not split")
DIVIDED += tuple(name for name, other in FOLLOW.items() if other == "K = 4")
LIFTED = (HARD, "random negatives")
# Rows of a page of docs/evidence each, beside ensembles and dividing.
OF_LOSSES = (*LOSSES, SMALL_BASE)
OF_LEVELS = (*LEVELS, "M, H", "L, M", "N-pair", LONG, THREE, "Proxy-NCA", THREE_PROXIES)
OF_LIFTED = (*LIFTED, HARDEST)

STUDY = losses_and_methods(
    "configs/cars_half.flags",
    "runs/cars",
    losses=LOSSES,
    ensembles=ENSEMBLES,
    levels=LEVELS,
    divided=DIVIDED,
    lifted=LIFTED,
    more=MORE,
    settings={HARDEST: OF_HARDEST, **rates([SMALL_BASE])},
    follow=FOLLOW,
    differences=[
        ("N-pair", "Proxy-NCA"),
        ("multi-similarity", SMALL_BASE),
        (FIRST, "N-pair"),
        (FIRST, "ranked list"),
        (FIRST, "H"),
        ("N-pair", "ranked list"),
        ("one embedding", "K = 4"),
        ("K = 4, random images", "K = 4"),
        ("K = 4, random classes", "K = 4"),
        ("one embedding", BY_IMAGES),
        ("K = 4, embedding not split", "K = 4"),
        ("ABE-4 without divergence", PAPERS_WEIGHT),
        ("ABE-1", PAPERS_WEIGHT),
        ("4-heads", PAPERS_WEIGHT),
        ("8-heads", "ABE-8"),
        ("ABE-4", "ABE-8"),
        ("ABE-2", "ABE-4"),
        ("L, H", "L, M, H"),
        ("H, no margin", "H"),
        ("H, no diameter", "H"),
        ("H, negatives weighted equally", "H"),
        ("N-pair", THREE),
        (LONG, THREE),
        ("Proxy-NCA", THREE_PROXIES),
        (THREE_PROXIES, THREE),
        ("4-heads+att", THREE),
        ("random negatives", HARD),
        (HARDEST, HARD),
    ],
)
