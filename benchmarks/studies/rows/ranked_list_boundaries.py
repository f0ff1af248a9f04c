"""Margins, temperatures and gradients of Ranked List Loss: `python -m benchmarks.study ranked_list_boundaries`.

Trains configs/toycars_rll.flags with each of the changes below and each seed, with the same number of steps and the
same batch size, and prints the table of `ranked_list`. Differences between rows follow below the table. It keeps the
runs and does not train a complete run again. This command trains longer, with smaller images:
`python -m benchmarks.study ranked_list_boundaries --image_size=32 --epochs=32 --eval_every=8`.
"""

from benchmarks.studies.rows.ranked_list import COLUMNS, FLAGFILE
from tfdml.run.study.study import Study


def loss(spec):
    return [f"--loss={spec}"]


def diameter(margin):
    """Returns the flags of another class diameter α - m, with the same α."""
    return loss(f"ranked_list(alpha=1.2, margin={margin})")


def temperatures(first, last):
    """Returns the flags of a T_n that changes with every step."""
    return loss(f"ranked_list_simpler(negative_temperature={first}, final_negative_temperature={last})")


# The same number of images per batch as in the flagfile.
SIX_IMAGES = "--sampler=pxk(classes=5, per_class=6)"
# One of T_1 and T_2 is the constant T_n of the flagfile.
DYNAMIC = ((0.0, 10.0), (20.0, 10.0), (10.0, 0.0), (10.0, 20.0))
# Small versions of rows of Tables VIII, IX, XI, XIV and XV of the paper. In the first row, α = 1.2, m = 0.4 and T_n =
# 10.
CHANGES = {
    "α = 1.2, m = 0.4, T_n = 10": [],
    **{f"α = {alpha}": loss(f"ranked_list(alpha={alpha}, margin=0.4)") for alpha in (1.0, 1.4)},
    **{f"T_n = {t:g}": loss(f"ranked_list_simpler(margin=0.4, negative_temperature={t})") for t in (0.0, 20.0)},
    **{f"T_n from {first:g} to {last:g}": temperatures(first, last) for first, last in DYNAMIC},
    **{f"m = {m}": diameter(m) for m in (0.0, 0.2, 0.8, 1.2)},
    **{f"m = {m}, six images a class": [*diameter(m), SIX_IMAGES] for m in (0.0, 0.4, 1.2)},
    "the printed objective": loss("ranked_list_simpler(differentiate_weights=True, differentiate_gallery=True)"),
}
# T_1 and T_2 (Table XV), and m with six images per class (Table XI).
SIX = "m = 0.4, six images a class"
DIFFERENCES = [
    ("T_n from 0 to 10", "T_n from 20 to 10"),
    ("T_n from 10 to 0", "T_n from 10 to 20"),
    (SIX, "m = 0.0, six images a class"),
    (SIX, "m = 1.2, six images a class"),
]

STUDY = Study(
    flagfile=FLAGFILE,
    rows=CHANGES,
    columns=COLUMNS,
    folder="runs/ranked_list_boundaries",
    which="final",
    differences=DIFFERENCES,
)
