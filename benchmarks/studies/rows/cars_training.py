"""Batches, images, networks and steps on half of Cars196: `python -m benchmarks.study cars_training`.

Trains configs/cars_half.flags with N-pair loss and one change in each row. Validation chooses the learning rate of each
row with one seed and 400 steps; rows that change the length, the crops or the embedding's size, or say so, have the
rate of the first row. Prints a Markdown table of all rates, and one of all seeds: mean ± standard deviation, in
percent, on test classes, of the best and the last models, MAP@R of the best, steps to it, and what Recall@1 on
validation classes gained in the last quarter of the steps, near 0 where a run is finished. Runs are kept. docs/cars.md
is about the images.
"""

from benchmarks.studies.losses_and_methods import rates
from benchmarks.studies.rows.emoji_losses import COLUMNS, SEARCHING
from tfdml.run.study.study import Study

# As `cars` writes them, so that they share runs.
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
# Those for which 400 steps choose another rate than the first row's.
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
