"""Losses and methods on the Omniglot set: `python -m benchmarks.study omniglot --data_dir=data/omniglot`.

Trains configs/omniglot.flags with losses and methods of the studies on emoji, to see what carries over to classes of
twenty images. Validation chooses among four settings of each row, as many as there, with one seed and 400 steps. Prints
a Markdown table of all settings, and one of all seeds: mean ± standard deviation, in percent, on test classes, of the
best and the last models, steps to the best one, and what Recall@1 on the validation alphabet gained in the last quarter
of the steps, near 0 where a run is finished. Below the table are differences between rows, of best models. Runs are
kept. docs/omniglot.md is about the images.
"""

from benchmarks.studies.rows import emoji_ensembles, emoji_losses, emoji_ranked_list
from benchmarks.studies.rows.divide_and_conquer import divided
from benchmarks.studies.rows.emoji_losses import COLUMNS, SEARCHING
from tfdml.run.study.declaration import Study

FLAGFILE = "configs/omniglot.flags"
FIRST = "triplet, semi-hard"
OF_LOSSES = (FIRST, "N-pair", "contrastive", "Proxy-NCA", "SoftTriple", "NormSoftmax", "Proxy-Anchor")
OF_ENSEMBLES = ("1-head", "4-heads", "4-heads+att", "ABE-1", "ABE-4")
# Ranked list loss with one level, with three, and with as many dimensions.
OF_LEVELS = ("H", "L, M, H", "H, 384 dimensions")
TRIPLET = "--loss=triplet(margin=0.1)"
DIVIDED = {
    "K = 4": divided(),
    "K = 4, turns on all data": divided("data_split='none'"),
    "K = 4, embedding not split": divided("split_embedding=False"),
}
CHANGES = {name: emoji_losses.CHANGES[name] for name in OF_LOSSES}
CHANGES |= {name: emoji_ensembles.CHANGES[name] for name in OF_ENSEMBLES}
CHANGES |= {name: emoji_ranked_list.CHANGES[name] for name in OF_LEVELS}
CHANGES |= {name: [*change, TRIPLET] for name, change in DIVIDED.items()}
SETTINGS = {name: emoji_losses.settings_of(name) for name in OF_LOSSES}
SETTINGS |= {name: emoji_ensembles.settings_of(*emoji_ensembles.METHODS[name]) for name in OF_ENSEMBLES}
SETTINGS |= {
    name: [[f"--optimizer=adam(learning_rate={rate})"] for rate in emoji_ensembles.MORE_RATES]
    for name in (*OF_LEVELS, *DIVIDED)
}
# The second minus the first.
DIFFERENCES = [
    (FIRST, "SoftTriple"),
    (FIRST, "K = 4"),
    (FIRST, "K = 4, embedding not split"),
    ("K = 4, turns on all data", "K = 4"),
    ("1-head", "4-heads"),
    ("1-head", "ABE-1"),
    ("1-head", "ABE-4"),
    ("ABE-1", "ABE-4"),
    ("4-heads", "ABE-4"),
    ("4-heads", "4-heads+att"),
    ("1-head", "4-heads+att"),
    ("4-heads+att", "ABE-4"),
    ("H", "L, M, H"),
    ("H, 384 dimensions", "L, M, H"),
]

STUDY = Study(
    flagfile=FLAGFILE,
    rows=CHANGES,
    columns=COLUMNS,
    folder="runs/omniglot",
    settings=SETTINGS,
    searching=SEARCHING,
    differences=DIFFERENCES,
)
