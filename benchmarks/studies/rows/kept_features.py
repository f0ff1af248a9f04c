"""Fine-tuning that keeps what the network knows: `python -m benchmarks.study kept_features --seeds=1,2,3`.

Runs that docs/records/tasks/kept_features.jsonl has are not trained again with these flags:

```
python -m benchmarks.study kept_features --seeds=1,2,3 --initial_weights=mobilenet_v2_035_imagenet.weights.h5 \\
    --records=docs/records/tasks/kept_features.jsonl
```

This file was committed before its runs, except for one row; see below. Rows train configs/omniglot.flags,
configs/emoji.flags and configs/cars_half.flags from the same initial embedding, WCCN. Each is then measured on the test
images of all three sets: on their own, *in domain*, and on the two others, *out of domain*. In all of them, the classes
differ from the training classes.

**Rows.** The initial model, which one step at a rate of 1e-12 does not change; the embedding layer alone, on frozen
features; low-rank changes (LoRA) of rank 16; all weights; all weights with a penalty on the distance of the weights to
their initial values, of the embeddings to the initial ones, with two factors, of both, and of the embeddings of the
training images of another set; and all weights, interpolated with the initial weights at the end.

**Settings.** Validation classes of the own set choose among three learning rates for each row, with seed 0, which is
not reported. The factor of a penalty is part of the row, because classes of the own set cannot choose it: for them, no
penalty is often best. The factors come from single runs with seed 99.

**A row that was added later.** On Omniglot, validation chose a lower rate for all weights than for the row nearer to
the embeddings, so that two things differed between them. One more row trains all weights at the rate of that row.

**Main differences.** On each set, each row with a penalty minus all weights, in domain, corrected together by the
method of Holm at 5%. A penalty keeps the features if the mean of the two columns out of domain is at most 1 point below
the initial model, on a set on which all weights lose more than 3 points.
"""

from tfdml.run.study.driver import seconds
from tfdml.run.study.records import measured
from tfdml.run.study.study import Spread, Study
from tfdml.run.study.tables import BEST_AND_LAST, MetricOf, steps_to_best

FOLDER = "folder(class_groups='{}')"
ELSEWHERE = {
    "Omniglot": {"dataset": FOLDER.format("group"), "data_dir": "data/omniglot"},
    "emoji": {"dataset": FOLDER.format("subgroup"), "data_dir": "data/emoji"},
    "cars": {"dataset": "folder", "data_dir": "data/cars"},
}
CONFIGS = {"Omniglot": "omniglot", "emoji": "emoji", "cars": "cars_half"}
# The other set of training images that a row has, without labels.
OTHER = {"Omniglot": "emoji", "emoji": "cars", "cars": "emoji"}
RATES = ("0.0001", "0.0003", "0.001")
INITIAL, EMBEDDING, LORA, ALL, BLEND = "initial model", "embedding layer", "LoRA", "all weights", "all weights, blend"
AT_RATE = "all weights, at the rate of the row nearer to the embeddings"
WEIGHTS, NEAR, NEARER, BOTH, OTHERS = (
    "near the weights",
    "near the embeddings",
    "nearer to the embeddings",
    "near both",
    "near embeddings of other images",
)
# Each row adds these flags to the flags of all weights.
CHANGES = {
    INITIAL: ["--steps=1", "--eval_every=1"],
    ALL: [],
    AT_RATE: [],
    NEAR: ["--toward_initial_embeddings=1"],
    NEARER: ["--toward_initial_embeddings=5"],
    OTHERS: ["--toward_initial_embeddings=5", "--anchor_images=data/{other}/train"],
    WEIGHTS: ["--toward_initial_weights=0.1"],
    BOTH: ["--toward_initial_weights=0.1", "--toward_initial_embeddings=2"],
    BLEND: ["--blend"],
    EMBEDDING: ["--lr_multipliers=backbone=0"],
    LORA: ["--lora=16"],
}
BEGUN = ["--initial_embedding=wccn", "--loss=n_pair(scale=20.0)"]


def flags_of(of_set, changes):
    changed = [flag.format(other=OTHER[of_set].lower()) for flag in changes]
    return [f"--flagfile=configs/{CONFIGS[of_set]}.flags", *BEGUN, *changed]


def settings_of(name):
    rates = ("1e-12", "2e-12", "3e-12") if name == INITIAL else RATES
    return [[f"--optimizer=adam(learning_rate={rate})"] for rate in rates]


def on_set(name):
    """Returns a column of Recall@1 on the test images of a set."""

    def column(results, run_dirs):
        found = [measured(run_dir)["elsewhere"][name] for run_dir in run_dirs]
        return Spread([sum(each["right"]) / sum(each["queries"]) for each in found])

    return column


STUDY = Study(
    flagfile="",
    rows={f"{of_set}: {name}": flags_of(of_set, changes) for of_set in CONFIGS for name, changes in CHANGES.items()},
    columns={
        **BEST_AND_LAST,
        **{f"on {name}": on_set(name) for name in ELSEWHERE},
        "features": MetricOf("features"),
        "steps to the best": steps_to_best,
        "seconds": seconds,
    },
    folder="runs/kept_features",
    settings={f"{of_set}: {name}": settings_of(name) for of_set in CONFIGS for name in CHANGES if name != AT_RATE},
    follow={f"{of_set}: {AT_RATE}": f"{of_set}: {NEARER}" for of_set in CONFIGS},
    elsewhere=ELSEWHERE,
    differences=[
        (f"{of_set}: {first}", f"{of_set}: {second}")
        for of_set in CONFIGS
        for first, second in (
            *((ALL, name) for name in (WEIGHTS, NEAR, NEARER, BOTH, OTHERS, BLEND, EMBEDDING, LORA)),
            *((AT_RATE, name) for name in (NEAR, NEARER, OTHERS, WEIGHTS, BOTH)),
            (INITIAL, ALL),
        )
    ],
)
