"""Batches, image size, network and steps on the emoji dataset: `python -m benchmarks.study emoji_training`.

Trains configs/emoji.flags with one change per row. Validation classes select the learning rate of each row with one
seed and 400 steps. Rows that change the number of steps, the crops or the embedding size use the learning rate of the
first row. It prints a table of all settings and a table over all seeds, in Markdown. The second one has the mean ±
standard deviation, in percent, of Recall@1 on test classes of the best and the last models, MAP@R of the best models,
the number of steps until them, and the gain in Recall@1 on validation classes in the last quarter of the steps, which
is near 0 if a run has converged. Images of 96 px are the images of 64 px, enlarged. It keeps the runs and does not
train a complete run again. docs/datasets.md describes the images, and --data_dir is their folder.
"""

from benchmarks.studies.added_rows import add_rows
from benchmarks.studies.rows.emoji_losses import COLUMNS
from tfdml.run.study.study import Study

FLAGFILE = "configs/emoji.flags"
SETTINGS = [[f"--optimizer=adam(learning_rate={rate})"] for rate in ("0.0001", "0.0003", "0.001")]
SEARCHING = ("--steps=400",)
# Written as in `emoji_losses` and `emoji_divide`, so that they share runs in one folder.
LOSS = "--loss=triplet(margin=0.1)"
FIRST = "16 × 4 images of 64 px, 128 dimensions, 800 steps"
SEARCHED = {
    FIRST: [],
    "8 × 4 images": ["--sampler=pxk(classes=8, per_class=4)"],
    "32 × 4 images": ["--sampler=pxk(classes=32, per_class=4)"],
    "32 × 2 images": ["--sampler=pxk(classes=32, per_class=2)"],
    "statistics of each batch": ["--freeze_batch_norm=none"],
    "generalized mean": ["--head=linear(pooling='gem')"],
    "96 px": ["--image_size=96"],
    "MobileNetV2 of full width": ["--backbone=keras_applications(name='MobileNetV2')"],
}
FOLLOWING = {
    "32 dimensions": ["--embedding_size=32"],
    "512 dimensions": ["--embedding_size=512"],
    "the whole image": ["--train_transform=warp"],
    "crops of a fifth to all": ["--train_transform=random_resized_crop(area=(0.2, 1.0))"],
    "crops, and flips": ["--train_transform=random_resized_crop(area=(0.6, 1.0))|flip"],
    "400 steps": ["--steps=400"],
    "1,600 steps": ["--steps=1600"],
    "3,200 steps": ["--steps=3200"],
}
CHANGES = {name: [LOSS, *change] for name, change in (SEARCHED | FOLLOWING).items()}
FOLLOW = dict.fromkeys(FOLLOWING, FIRST)
# This row tests whether the batch that is best in short runs is also best in long ones.
PAIRS = "32 × 2 images"
add_rows(CHANGES, FOLLOW, [PAIRS], ", 3,200 steps", "--steps=3200")
# Each difference is the second row minus the first.
DIFFERENCES = [(FIRST, PAIRS), ("3,200 steps", f"{PAIRS}, 3,200 steps")]

STUDY = Study(
    flagfile=FLAGFILE,
    rows=CHANGES,
    columns=COLUMNS,
    folder="runs/emoji_training",
    settings=dict.fromkeys(SEARCHED, SETTINGS),
    searching=SEARCHING,
    follow=FOLLOW,
    differences=DIFFERENCES,
)
