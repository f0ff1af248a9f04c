"""Lifted Structure on the emoji set, with and without hard neighbors: `python -m benchmarks.study emoji_lifted`.

Trains configs/emoji.flags with the lifted structure loss and each of the batches below, of as many images. Validation
chooses among four settings of each row with one seed and 400 steps: two margins and two learning rates. Prints a
Markdown table of all settings, and one of all seeds: mean ± standard deviation, in percent, on test classes, of the
best and the last models, MAP@R of the best, steps to it, and what Recall@1 on validation classes gained in the last
quarter of the steps, near 0 where a run is finished. Runs are kept. docs/emoji.md is about the
images; --data_dir says where they are.
"""

from benchmarks.studies.rows import emoji_losses
from benchmarks.studies.rows.emoji_losses import COLUMNS, FLAGFILE, SEARCHING
from tfdml.run.study.study import Study

LOSS = "lifted structure"
BATCHES = {
    "hard neighbors": ["--sampler=hard_neighbors(pairs=16)"],
    # More passes than any run has: the neighbors stay random.
    "random negatives": ["--sampler=hard_neighbors(pairs=16, refresh_every=1000000)"],
    # Twice as many positive pairs, whose images are the negatives.
    "32 pairs": ["--sampler=pairs(images=32)"],
    # Those of the flagfile, so that its runs are those of `emoji_losses`.
    "P×K": [],
}
CHANGES = {name: [*emoji_losses.CHANGES[LOSS], *batches] for name, batches in BATCHES.items()}
SETTINGS = {name: emoji_losses.settings_of(LOSS) for name in CHANGES}
# The second minus the first.
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
