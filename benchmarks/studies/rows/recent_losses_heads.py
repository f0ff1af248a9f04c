"""Losses since 2022 on stored features of cars: `python -m benchmarks.study recent_losses_heads`.

Runs of a linear layer on stored features take seconds, so this study has what `recent_losses` cannot afford: five
seeds, and a search of each row with one budget. It says which loss to try first on a head. Networks can rank losses
otherwise. This file was committed before its runs. `recent_losses_heads_emoji` has the same rows on emoji.

**Protocol.** Rows train configs/head.flags on the features of MobileNetV2 0.35 with ImageNet weights, at 160 px for
cars and 96 px for emoji (docs/datasets.md). Validation classes choose among three learning rates of every row: 3e-4,
1e-3 and 3e-3. The search runs at full length with seed 0, which is not reported. All other arguments are as in
`recent_losses`. We report the seeds 1 to 5 (`--seeds=1,2,3,4,5`).

**Main differences** are rows of losses since 2022 minus the best loss of before, N-pair, and minus the control of each:
smooth AP for Recall@k, SoftTriple for the potential field, and N-pair or NormSoftmax without the regularizer. The
differences of a set are corrected together by the method of Holm at 5%.

**Verdicts**, from the 95% confidence interval over classes and seeds, with 1 point as the smallest effect of interest:
*better* if the interval is above 0, *worse* if it is below 0, *excluded* if its upper end is below 1 point, and
otherwise *cannot tell*.
"""

from benchmarks.studies.rows.recent_losses import (
    APART,
    BALL,
    EVEN,
    FIELD,
    LOSSES,
    MIXED,
    N_PAIR,
    RECALL,
    SMOOTH,
    SOFTMAX,
    SPREAD,
    TRIPLE,
    VOLUME,
)
from tfdml.run.study.study import Study
from tfdml.run.study.tables import BEST_AND_LAST, FINISHED, MetricOf

RATES = ("0.0003", "0.001", "0.003")
# The second minus the first.
DIFFERENCES = [(N_PAIR, name) for name in (RECALL, MIXED, FIELD, BALL, VOLUME, EVEN, APART)]
DIFFERENCES += [(SMOOTH, RECALL), (TRIPLE, FIELD), (SOFTMAX, SPREAD)]


def study(features, folder):
    """Returns the study on the features in a folder, which has the folders `train` and `test` of `tfdml.embed`."""
    dataset = f"--dataset=embeddings(path='{features}/train', test='{features}/test')"
    return Study(
        flagfile="configs/head.flags",
        rows={name: [*flags, dataset] for name, flags in LOSSES.items()},
        columns={**BEST_AND_LAST, "MAP@R": MetricOf("best", "map_at_r"), **FINISHED},
        folder=folder,
        settings={name: [[f"--optimizer=adam(learning_rate={rate})"] for rate in RATES] for name in LOSSES},
        differences=DIFFERENCES,
    )


STUDY = study("features/cars", "runs/recent_losses_heads")
