"""Batches, image size, network and steps on half of Cars196: `python -m benchmarks.study cars_training`.

Trains configs/cars_half.flags with N-pair loss and one change per row. Validation classes select the learning rate of
each row with one seed and 400 steps. Rows that change the number of steps, the crops or the embedding size use the
learning rate of the first row, and so do rows with this in their name. It prints a table of all settings and a table
over all seeds, in Markdown. The second one has the mean ± standard deviation, in percent, of Recall@1 on test classes
of the best and the last models, MAP@R of the best models, the number of steps until them, and the gain in Recall@1 on
validation classes in the last quarter of the steps, which is near 0 if a run has converged. It keeps the runs and does
not train a complete run again. docs/datasets.md describes the images.
"""

from benchmarks.studies.losses_and_methods import rates
from benchmarks.studies.rows.emoji_losses import COLUMNS, SEARCHING
from tfdml.run.study.study import Study

# Written as in `cars`, so that both studies share runs.
LOSS = "--loss=n_pair(scale=10.0)"
FIRST = "8 × 4 images of 96 px, 128 dimensions, 1,600 steps"
SEARCHED = {
    FIRST: [],
    "16 × 4 images": ["--sampler=pxk(classes=16, per_class=4)"],
    "16 × 2 images": ["--sampler=pxk(classes=16, per_class=2)"],
    "statistics of each batch": ["--freeze_batch_norm=none"],
    "128 px": ["--image_size=128"],
    "MobileNetV2 of full width": ["--backbone=keras_applications(name='MobileNetV2')"],
}
FOLLOWING = {
    "32 dimensions": ["--embedding_size=32"],
    "384 dimensions": ["--embedding_size=384"],
    "the whole image, and flips": ["--train_transform=warp|flip"],
    "crops of a fifth to all, and flips": ["--train_transform=random_resized_crop(area=(0.2, 1.0))|flip"],
    "crops without flips": ["--train_transform=random_resized_crop(area=(0.6, 1.0))"],
    "800 steps": ["--steps=800"],
    "3,200 steps": ["--steps=3200"],
    "6,400 steps": ["--steps=6400"],
}
# Rows for which 400 steps selected another learning rate than for the first row.
FOLLOWING |= {
    f"{name}, at the same rate": SEARCHED[name] for name in ("128 px", "16 × 4 images", "statistics of each batch")
}

STUDY = Study(
    flagfile="configs/cars_half.flags",
    rows={name: [*change, LOSS] for name, change in (SEARCHED | FOLLOWING).items()},
    columns=COLUMNS,
    folder="runs/cars_training",
    settings=rates(SEARCHED),
    searching=SEARCHING,
    follow=dict.fromkeys(FOLLOWING, FIRST),
)
