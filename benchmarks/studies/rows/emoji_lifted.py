"""Lifted Structure on the emoji dataset, with and without hard negatives: `python -m benchmarks.study emoji_lifted`.

Trains configs/emoji.flags with the lifted structure loss and each of the batches below, which have the same size.
Validation classes select among four settings of each row with one seed and 400 steps: two margins and two learning
rates. It prints a table of all settings and a table over all seeds, in Markdown. The second one has the mean ± standard
deviation, in percent, of Recall@1 on test classes of the best and the last models, MAP@R of the best models, the number
of steps until them, and the gain in Recall@1 on validation classes in the last quarter of the steps, which is near 0 if
a run has converged. It keeps the runs and does not train a complete run again. docs/datasets.md describes the images,
and --data_dir is their folder.
"""

from benchmarks.studies.rows import emoji_losses
from benchmarks.studies.rows.emoji_losses import COLUMNS, FLAGFILE, SEARCHING
from tfdml.run.study.study import Study

LOSS = "lifted structure"
BATCHES = {
    "hard neighbors": ["--sampler=hard_neighbors(pairs=16)"],
    # No run has that many passes, so the negatives stay random.
    "random negatives": ["--sampler=hard_neighbors(pairs=16, refresh_every=1000000)"],
    # Twice as many positive pairs. The images of other pairs are the negatives.
    "32 pairs": ["--sampler=pairs(images=32)"],
    # The batches of the flagfile, so that `emoji_losses` shares these runs.
    "P×K": [],
}
CHANGES = {name: [*emoji_losses.CHANGES[LOSS], *batches] for name, batches in BATCHES.items()}
SETTINGS = {name: emoji_losses.settings_of(LOSS) for name in CHANGES}
# Each difference is the second row minus the first.
DIFFERENCES = [
    ("random negatives", "hard neighbors"),
    ("P×K", "hard neighbors"),
    ("random negatives", "32 pairs"),
    ("32 pairs", "P×K"),
]

STUDY = Study(
    flagfile=FLAGFILE,
    rows=CHANGES,
    columns=COLUMNS,
    folder="runs/emoji_lifted",
    settings=SETTINGS,
    searching=SEARCHING,
    differences=DIFFERENCES,
)
