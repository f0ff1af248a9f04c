"""Losses and methods on half of Cars196: `python -m benchmarks.study cars --data_dir=data/cars`.

Trains configs/cars_half.flags, with the classes of the papers and about 41 images per class, using losses and methods
from the emoji studies. Validation classes select among four settings of each row, the same number as on emoji, with one
seed and 400 steps. A row that changes one thing about another row uses its settings. It prints a table of all settings
and a table over all seeds, in Markdown. The second one has the mean ± standard deviation, in percent, of Recall@1 on
test classes of the best and the last models, MAP@R of the best models, the number of steps until them, and the gain in
Recall@1 on validation classes in the last quarter of the steps, which is near 0 if a run has converged. Differences
between the best models of rows follow below the table. It keeps the runs and does not train a complete run again.
docs/datasets.md describes the images.
"""

from benchmarks.studies.added_rows import FOUR_TIMES
from benchmarks.studies.columns import changed_clusters, trainable_parameters
from benchmarks.studies.losses_and_methods import BEGUN_FOLLOW, BEGUN_ROWS, FIRST, losses_and_methods, rates
from benchmarks.studies.rows import emoji_divide, emoji_ensembles, emoji_lifted, emoji_losses
from benchmarks.studies.rows.emoji_ensembles import cosine_of_self_pairs
from benchmarks.studies.rows.emoji_losses import COLUMNS
from benchmarks.studies.rows.emoji_ranked_list import RANKED_LIST, levels
from tfdml.run.study.tables import recall_alone

BY_IMAGES = "K = 4, in proportion to images"
HARD, HARDEST = "hard neighbors", "hard neighbors, the hardest negative only"
SMALL_BASE = "multi-similarity, base of 0.5"
THREE, THREE_PROXIES, LONG = "N-pair, three levels", "Proxy-NCA, three levels", "N-pair, 384 dimensions"
ABE, WEAKER, NO_DIVERGENCE = "ABE-4", "ABE-4, λ = 0.1", "ABE-4 without divergence"


def ensemble(name, weight):
    """Returns the flags of a row of `emoji_ensembles` with a weight of the divergence loss and twice as many steps."""
    method, _ = emoji_ensembles.METHODS[name]
    return [*emoji_ensembles.CHANGES[name], emoji_ensembles.method_flag(method, weight), "--steps=3200"]


# Names without a weight of the divergence loss have the paper's weight. Rows in `FOLLOW` use the learning rate of
# another.
ENSEMBLES = {
    **{name: ensemble(name, 0.0) for name in ("1-head", "4-heads", "8-heads", "4-heads+att", "ABE-1", NO_DIVERGENCE)},
    **{name: ensemble(name, 1.0) for name in ("ABE-2", ABE, "ABE-8")},
    WEAKER: ensemble(ABE, 0.1),
}
MORE = {
    **BEGUN_ROWS,
    **ENSEMBLES,
    # The base of the authors' code, which differs from the paper's.
    SMALL_BASE: ["--loss=multi_similarity(beta=40.0, base=0.5)"],
    "M, H": [RANKED_LIST, *levels("MH")],
    "L, M": [RANKED_LIST, *levels("LM")],
    THREE: levels("LMH"),
    LONG: ["--embedding_size=384"],
    THREE_PROXIES: levels("LMH"),
    HARDEST: emoji_lifted.CHANGES[HARD],
    # The same batch size as in the other rows.
    BY_IMAGES: [*emoji_divide.CHANGES[BY_IMAGES], "--sampler=proportional_pxk(groups=8, per_class=4)"],
}
FOLLOW = {
    **BEGUN_FOLLOW,
    **{name: "L, M, H" for name in ("L, H", "M, H", "L, M")},
    **{name: "H" for name in ("H, no margin", "H, no diameter", "H, negatives weighted equally")},
    **{name: "N-pair" for name in (THREE, LONG)},
    THREE_PROXIES: "Proxy-NCA",
    **{name: "K = 4" for name in ("K = 2", "K = 8", BY_IMAGES, "K = 4, random images")},
    **{name: "4-heads" for name in ("8-heads", "4-heads+att")},
    **{name: ABE for name in ("ABE-1", "ABE-2", "ABE-8", WEAKER, NO_DIVERGENCE)},
    "random negatives": HARD,
    **{name: "K = 4" for name in ("K = 4, random classes", "K = 4, every slice on every batch")},
}
DIVIDED = ("one embedding", "K = 4", "K = 4, turns on all data", "K = 4, embedding not split")
DIVIDED += tuple(name for name, other in FOLLOW.items() if other == "K = 4")
# These rows train until they no longer improve. Each of four learners then has as many steps as a single embedding has
# in the other rows.
LONGER = ("one embedding", "K = 4", BY_IMAGES)
LONGER_LOSSES = ("N-pair", "Proxy-NCA", THREE, THREE_PROXIES)
CHANGES = {**emoji_losses.CHANGES, **emoji_divide.CHANGES, **MORE}
MORE |= {f"{name}{FOUR_TIMES}": [*CHANGES[name], "--steps=6400"] for name in (*LONGER, *LONGER_LOSSES)}
FOLLOW |= {f"{name}{FOUR_TIMES}": FOLLOW.get(name, name) for name in (*LONGER, *LONGER_LOSSES)}
# The settings of the lifted structure loss, with the hardest negative instead of the smooth bound.
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
LEVELS = (
    "H",
    "L, M, H",
    "H, 384 dimensions",
    "L, H",
    "H, no margin",
    "H, no diameter",
    "H, negatives weighted equally",
)
LIFTED = (HARD, "random negatives")
OF_MAIN = ("N-pair", "Proxy-NCA", "H", THREE, THREE_PROXIES, *BEGUN_ROWS, "L, M, H", "1-head", "4-heads", ABE)
# The rows of each page of docs/evidence.
OF_LOSSES = (*LOSSES, SMALL_BASE, *(f"{name}{FOUR_TIMES}" for name in ("one embedding", "N-pair", "Proxy-NCA")))
OF_LEVELS = (*LEVELS, "M, H", "L, M", "N-pair", LONG, THREE, "Proxy-NCA", THREE_PROXIES)
OF_LEVELS += tuple(f"{name}{FOUR_TIMES}" for name in LONGER_LOSSES)
OF_ENSEMBLES = ("1-head", "4-heads", "4-heads+att", "ABE-1", ABE, NO_DIVERGENCE)
OF_NUMBERS = ("4-heads", "8-heads", "ABE-1", "ABE-2", ABE, "ABE-8", WEAKER, NO_DIVERGENCE)
OF_DIVIDED = (*DIVIDED, *(f"{name}{FOUR_TIMES}" for name in LONGER))
OF_LIFTED = (*LIFTED, HARDEST)

STUDY = losses_and_methods(
    "configs/cars_half.flags",
    "runs/cars",
    losses=LOSSES,
    ensembles=(),
    levels=LEVELS,
    divided=DIVIDED,
    lifted=LIFTED,
    more=MORE,
    settings={HARDEST: OF_HARDEST, **rates([SMALL_BASE, "1-head", "4-heads", ABE])},
    follow=FOLLOW,
    # Rows with one learner have empty cells.
    columns={
        **COLUMNS,
        "a learner's Recall@1": recall_alone,
        "cosine of self pairs": cosine_of_self_pairs,
        "changed": changed_clusters,
        "parameters": trainable_parameters,
    },
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
        *((f"one embedding{FOUR_TIMES}", f"{name}{FOUR_TIMES}") for name in ("K = 4", BY_IMAGES)),
        *((name, f"{name}{FOUR_TIMES}") for name in (*LONGER, *LONGER_LOSSES)),
        *((f"N-pair{FOUR_TIMES}", f"{name}{FOUR_TIMES}") for name in ("Proxy-NCA", THREE)),
        (f"Proxy-NCA{FOUR_TIMES}", f"{THREE_PROXIES}{FOUR_TIMES}"),
        ("K = 4, embedding not split", "K = 4"),
        (NO_DIVERGENCE, ABE),
        (NO_DIVERGENCE, WEAKER),
        ("ABE-2", ABE),
        (ABE, "ABE-8"),
        ("4-heads", "8-heads"),
        ("8-heads", "ABE-8"),
        ("L, H", "L, M, H"),
        ("H, no margin", "H"),
        ("H, no diameter", "H"),
        ("H, negatives weighted equally", "H"),
        ("N-pair", THREE),
        (LONG, THREE),
        ("Proxy-NCA", THREE_PROXIES),
        (THREE_PROXIES, THREE),
        tuple(BEGUN_ROWS),
        ("4-heads+att", THREE),
        ("random negatives", HARD),
        (HARDEST, HARD),
    ],
)
