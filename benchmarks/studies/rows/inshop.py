"""Many classes with few images: `python -m benchmarks.study inshop --data_dir=data/inshop_half`.

This file was committed before its runs. It asks what the default configuration should do with thousands of classes that
have about 6 images each, on In-shop with our own split (configs/inshop_half.flags, benchmarks/studies/inshop_set.py).
The results cannot be compared with papers.

**Rows.** A batch has 16 classes with 4 images each, and validation leaves 3,193 training classes. So a class is visited
steps × 16 / 3,193 times: 3 times in 600 steps and 25 times in 5,000 steps. The rows train N-pair or Proxy-NCA for one
of these lengths, from the initial embedding that the default configuration chooses. Two rows without training have
closed-form embeddings of the frozen features of the last layer or of three depths.

**Settings.** Validation chooses one of two learning rates, 1e-4 and 3e-4, at full length with seed 0, which is not
reported. Rows without training choose between linear discriminants and whitening within classes. We report the seeds 1
to 3.

**Main differences.** Proxy-NCA minus N-pair at each length, corrected together by the method of Holm at 5%. If
Proxy-NCA is better at 25 visits and not at 3, the recommended loss depends on the visits per class. If N-pair is better
at both lengths, it depends on the images per class. Otherwise, we cannot tell. The other differences are secondary.
"""

from benchmarks.studies.rows.decisive import COLUMNS, NOT_TRAINED, PROXIES
from tfdml.run.study.study import Study

RATES = ("0.0001", "0.0003")
SHORT, LONG = 600, 5000
FROZEN, FROZEN_LEVELS = "frozen features, closed form", "frozen features of three depths, closed form"
LOSSES = {"N-pair": [], "Proxy-NCA": PROXIES}


def name_of(loss, steps):
    """Returns the name of a trained row."""
    return f"{loss}, {steps:,} steps"


ROWS = {
    FROZEN: ["--method=single", *NOT_TRAINED],
    FROZEN_LEVELS: ["--method=multilevel(auxiliary=())", *NOT_TRAINED],
    **{
        name_of(loss, steps): [*flags, f"--steps={steps}", f"--eval_every={steps // 4}"]
        for steps in (SHORT, LONG)
        for loss, flags in LOSSES.items()
    },
}


def settings_of(name):
    """Returns the two settings of a row."""
    if name in (FROZEN, FROZEN_LEVELS):
        return [[f"--initial_embedding={kind}"] for kind in ("lda", "wccn")]
    return [[f"--optimizer=adam(learning_rate={rate})"] for rate in RATES]


STUDY = Study(
    flagfile="configs/inshop_half.flags",
    rows=ROWS,
    columns={
        name: column for name, column in COLUMNS.items() if name not in ("a learner's Recall@1", "cosine of self pairs")
    },
    folder="runs/inshop",
    settings={name: settings_of(name) for name in ROWS},
    differences=[
        *((name_of("N-pair", steps), name_of("Proxy-NCA", steps)) for steps in (SHORT, LONG)),
        *((name_of(loss, SHORT), name_of(loss, LONG)) for loss in LOSSES),
        (FROZEN, FROZEN_LEVELS),
        (FROZEN_LEVELS, name_of("N-pair", SHORT)),
        (FROZEN_LEVELS, name_of("N-pair", LONG)),
    ],
)
