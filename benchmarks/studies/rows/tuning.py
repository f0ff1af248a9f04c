"""Learning curves of the settings that `tfdml.tune` selects from: `python -m benchmarks.study tuning --seeds=0`.

Trains configs/emoji.flags with the default configuration for photos and with everything that a search may change about
it, except crops and the largest images: 72 rows, each evaluated every 40 steps. With --records=tuning.jsonl it records
the curves. `python -m benchmarks.studies.searchers tuning.jsonl --steps=800 --recipe="--loss='n_pair(scale=20.0)'
--optimizer='adam(learning_rate=0.0003)' --method=multilevel --image_size=128"` replays searches on them, including
Optuna's own sampler. docs/datasets.md describes the images, and --data_dir is their folder.
"""

from tfdml.console.flags import RECIPE
from tfdml.run.study.study import Study
from tfdml.run.study.tables import BEST_AND_LAST, FINISHED
from tfdml.run.tuning.state import SPACE, draw

CHOICES = {**{name: SPACE[name] for name in ("loss", "optimizer", "method")}, "image_size": SPACE["image_size"][:2]}
FLAGS = (*CHOICES, "embedding_size", "initial_embedding")
FIRST = {name: f"--{name}={value}" for name, value in {**RECIPE, "lr_multipliers": ""}.items()}
SHARED = ["--patience=0", "--eval_every=40", "--eval_unit=steps"]
RECIPE_ROW = "the recipe"
CHANGES = {"": {}, **{" ".join(each.values()): each for each in draw(FIRST, [], seed=0, space=CHOICES)}}

STUDY = Study(
    flagfile="configs/emoji.flags",
    rows={
        name or RECIPE_ROW: [*SHARED, *{**{flag: FIRST[flag] for flag in FLAGS}, **changes}.values()]
        for name, changes in CHANGES.items()
    },
    columns={**BEST_AND_LAST, **FINISHED},
    folder="runs/tuning",
    head="changed",
)
