"""Fine-tuning that keeps what the network knows: `python -m benchmarks.study kept_features --seeds=1,2,3`.

This file was committed before its runs, which nothing in it depends on. Rows train configs/emoji.flags,
configs/cars_half.flags and configs/omniglot.flags from the same initial embedding, WCCN. Each is then measured on the
test images of all three sets: on their own, *in domain*, and on the two others, *out of domain*. In all of them, the
classes differ from the training classes.

**Rows.** The initial model, which one step at a rate of 1e-12 does not change; the embedding layer alone, on frozen
features; low-rank changes (LoRA) of rank 16; all weights; all weights with a penalty on the distance of the weights to
their initial values, of the embeddings to the initial ones, of both, and of the embeddings of the training images of
another set; and all weights, interpolated with the initial weights at the end.

**Settings.** Validation classes of the own set choose among four settings of each row, with seed 0, which is not
reported. Rows without a penalty have four learning rates. The others have two learning rates times two weights of the
penalty. Rows that have nothing to choose have four settings with the same result.

**Main differences.** On each set, each of the four rows with a penalty minus all weights, in domain: twelve
differences, corrected together by the method of Holm at 5%. A penalty keeps the features if the mean of the two columns
out of domain is at most 1 point below the initial model, on a set on which all weights lose more than 3 points.
"""

import functools

from tfdml.console.flags import parse, resolve
from tfdml.console.settings import values_of
from tfdml.run.experiment.experiment import trained
from tfdml.run.study.driver import seconds
from tfdml.run.study.study import Spread, Study
from tfdml.run.study.tables import BEST_AND_LAST, MetricOf, steps_to_best

SETS = {"emoji": "emoji", "cars": "cars_half", "Omniglot": "omniglot"}
# The other set of training images that a row has, without labels.
OTHER = {"emoji": "cars", "cars": "emoji", "Omniglot": "emoji"}
RATES = ("0.00003", "0.0001", "0.0003", "0.001")
PENALIZED = ("0.0001", "0.0003")
INITIAL, EMBEDDING, LORA, ALL, BLEND = "initial model", "embedding layer", "LoRA", "all weights", "all weights, blend"
WEIGHTS, EMBEDDINGS, BOTH, OTHERS = (
    "near the weights",
    "near the embeddings",
    "near both",
    "near embeddings of other images",
)
OF_WEIGHTS, OF_EMBEDDINGS = (0.003, 0.03), (1.0, 5.0)


def rates(values):
    return [[f"--optimizer=adam(learning_rate={value})"] for value in values]


def penalized(*flags):
    """Returns the settings of a row with a penalty: two learning rates times two weights of each flag."""
    weights = {"weights": OF_WEIGHTS, "embeddings": OF_EMBEDDINGS}
    return [
        [*setting, *(f"--toward_initial_{flag}={weights[flag][place]}" for flag in flags)]
        for setting in rates(PENALIZED)
        for place in range(2)
    ]


CHANGES = {
    INITIAL: (["--steps=1", "--eval_every=1"], rates(("1e-12", "2e-12", "3e-12", "4e-12"))),
    EMBEDDING: (["--lr_multipliers=backbone=0"], rates(RATES)),
    LORA: (["--lora=16"], rates(RATES)),
    ALL: ([], rates(RATES)),
    BLEND: (["--blend"], rates(RATES)),
    WEIGHTS: ([], penalized("weights")),
    EMBEDDINGS: ([], penalized("embeddings")),
    BOTH: ([], penalized("weights", "embeddings")),
    OTHERS: (["--anchor_images=data/{other}/train"], penalized("embeddings")),
}
BEGUN = ["--initial_embedding=wccn", "--loss=n_pair(scale=20.0)"]


def flags_of(of_set, changes):
    changed = [flag.format(other=OTHER[of_set].lower()) for flag in changes]
    return [f"--flagfile=configs/{SETS[of_set]}.flags", *BEGUN, *changed]


def on_set(of_set):
    """Returns a column of Recall@1 of the best models on the test images of a set."""
    return lambda results, run_dirs: Spread([_recall(run_dir, of_set) for run_dir in run_dirs])


@functools.cache
def _recall(run_dir, of_set):
    data = parse("\n".join(resolve([f"--flagfile=configs/{SETS[of_set]}.flags"]).values()))[0].data
    changes = {**values_of("on_another_dataset"), "dataset": data.dataset, "data_dir": data.data_dir}
    experiment, model = trained(run_dir, "best", {**changes, "metrics": ("recall_at_1",)})
    test = experiment.splits.test
    return experiment.measure(experiment.embed(model, test), test)["recall_at_1"]


STUDY = Study(
    flagfile="",
    rows={f"{of_set}: {name}": flags_of(of_set, changes) for of_set in SETS for name, (changes, _) in CHANGES.items()},
    columns={
        **BEST_AND_LAST,
        **{f"on {of_set}": on_set(of_set) for of_set in SETS},
        "features": MetricOf("features"),
        "steps to the best": steps_to_best,
        "seconds": seconds,
    },
    folder="runs/kept_features",
    settings={f"{of_set}: {name}": settings for of_set in SETS for name, (_, settings) in CHANGES.items()},
    differences=[
        (f"{of_set}: {first}", f"{of_set}: {second}")
        for of_set in SETS
        for first, second in (
            *((ALL, name) for name in (WEIGHTS, EMBEDDINGS, BOTH, OTHERS, BLEND, LORA, EMBEDDING)),
            (INITIAL, ALL),
        )
    ],
)
