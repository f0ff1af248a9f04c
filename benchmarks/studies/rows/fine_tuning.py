"""Methods of fine-tuning a pretrained network: `python -m benchmarks.study fine_tuning --seeds=0`.

Trains configs/emoji.flags, cars_half.flags and omniglot.flags, each for 800 steps of N-pair loss, with one change per
row: all weights at two learning rates; the embedding layer only, on frozen features; the embedding layer only for 200
steps, then all weights; learning rates that fall from the head to the stem; low-rank changes (LoRA); and all weights
and the two stages from a random embedding instead of WCCN. The learning rate is 0.0003 unless the name of a row has
another one; there is no search. It prints a Markdown table with Recall@1 on test classes, in percent, of the best and
the last models, of the pretrained features and of a linear layer on them, the number of steps until the best model, and
seconds. Differences between the best models of rows follow below the table. It keeps the runs and does not train a
complete run again.
"""

from tfdml.run.study.driver import seconds
from tfdml.run.study.study import Study
from tfdml.run.study.tables import BEST_AND_LAST, MetricOf, spread_of, steps_to_best

SETS = {"emoji": "emoji", "cars": "cars_half", "Omniglot": "omniglot"}
ALIKE = ["--loss=n_pair(scale=20.0)", "--steps=800", "--eval_every=100", "--eval_unit=steps", "--baselines=linear"]
WCCN = ["--initial_embedding=wccn"]
ALL, ALONE, TWO_STAGES, RANDOM = "all weights", "the embedding alone, 0.001", "two stages", "random embedding"


def rate(value):
    return f"--optimizer=adam(learning_rate={value})"


FREE, LOW = rate(0.0003), rate(0.0001)
CHANGES = {
    ALL: [*WCCN, FREE],
    f"{ALL}, 0.0001": [*WCCN, LOW],
    ALONE: [*WCCN, rate(0.001), "--freeze_until=800"],
    TWO_STAGES: [*WCCN, FREE, "--freeze_until=200"],
    "layer decay 0.9": [*WCCN, FREE, "--layer_decay=0.9"],
    "layer decay 0.75": [*WCCN, FREE, "--layer_decay=0.75"],
    "LoRA, rank 16": [*WCCN, FREE, "--lora=16"],
    "LoRA, rank 16, 0.001": [*WCCN, rate(0.001), "--lora=16"],
    f"{RANDOM}, {ALL}": [FREE],
    f"{RANDOM}, {TWO_STAGES}": [FREE, "--freeze_until=200"],
}
# Each difference is the second row minus the first.
PAIRS = [
    *((ALL, name) for name in CHANGES if name not in (ALL, f"{RANDOM}, {TWO_STAGES}")),
    (f"{RANDOM}, {ALL}", f"{RANDOM}, {TWO_STAGES}"),
]


def linear(results, run_dirs):
    """Returns a column for a linear layer that was trained on stored features of whole images."""
    return spread_of([result["baselines"]["linear"] for result in results], "recall_at_1")


STUDY = Study(
    flagfile="",
    rows={
        f"{of_set}: {name}": [f"--flagfile=configs/{flagfile}.flags", *ALIKE, *change]
        for of_set, flagfile in SETS.items()
        for name, change in CHANGES.items()
    },
    columns={
        **BEST_AND_LAST,
        "features": MetricOf("features"),
        "linear on features": linear,
        "steps to the best": steps_to_best,
        "seconds": seconds,
    },
    folder="runs/fine_tuning",
    differences=[(f"{of_set}: {first}", f"{of_set}: {second}") for of_set in SETS for first, second in PAIRS],
)
