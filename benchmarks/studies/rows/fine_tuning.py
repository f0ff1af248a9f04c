"""Ways to fine-tune a pretrained network: `python -m benchmarks.study fine_tuning --data_dir=photos`.

Trains configs/photos.flags on a folder of photos for 800 steps with one change in each row: all weights at one rate;
the embedding alone, on frozen features; the embedding alone for 200 steps, then all; rates that fall from head to stem;
low-rank changes (LoRA). Prints a Markdown table, mean ± standard deviation over seeds: Recall@1 of the best and the
last models and of the pretrained features, on test classes, in percent, steps to the best, and seconds. Below are
differences of best models from the first row. Flags may follow, such as `--initial_weights=mobilenet.weights.h5`.
"""

from tfdml.run.study.columns import BEST_AND_LAST, MetricOf, steps_to_best
from tfdml.run.study.declaration import Study
from tfdml.run.study.flagfiles import seconds

ALIKE = ["--steps=800", "--sampler=pxk(classes=16, per_class=4)"]
ALL = "all weights, one rate"
CHANGES = {
    ALL: [],
    "the embedding alone": ["--freeze_until=800"],
    "the embedding alone for 200 steps": ["--freeze_until=200"],
    "layer decay 0.9": ["--layer_decay=0.9"],
    "layer decay 0.75": ["--layer_decay=0.75"],
    "LoRA, rank 4": ["--lora=4"],
    "LoRA, rank 16": ["--lora=16"],
    "LoRA, rank 16, triple rate": ["--lora=16", "--optimizer=adam(learning_rate=0.0009)"],
}

STUDY = Study(
    flagfile="configs/photos.flags",
    rows={name: [*ALIKE, *change] for name, change in CHANGES.items()},
    columns={
        **BEST_AND_LAST,
        "of the features": MetricOf("features"),
        "steps to the best": steps_to_best,
        "seconds": seconds,
    },
    folder="runs/fine_tuning",
    differences=[(ALL, name) for name in CHANGES if name != ALL],
    measured=False,
)
