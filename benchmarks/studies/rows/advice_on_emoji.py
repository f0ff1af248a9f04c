"""Whether advice from the decisive tests holds on emoji: `python -m benchmarks.study advice_on_emoji`.

This file was committed before its runs. The decisive tests (decisive.py) train on half of Cars196 alone, and their
claims 1 and 7 are the advice of docs/settings.md: three levels, which start from discriminants, are trained with N-pair
loss. Emoji took no part in the decisive tests. They differ from cars in what matters most: drawings instead of photos,
543 training classes instead of 78, and 6 images per class instead of 41. Earlier studies of emoji did compare three
levels with one, but never with heads of as many parameters, and never with discriminants of three depths.

**Protocol.** As in decisive.py, with these differences. Every row trains configs/emoji.flags for 1,600 steps, 47 visits
per class. Validation classes choose between the two learning rates that the advice names, 1e-4 and 3e-4, or between
discriminants and whitening in 384 dimensions without training, with seed 0, which is not reported. We report the seeds
1 to 3 (`--seeds=1,2,3`).

**Two differences**, of the chosen models, with an effect of interest of 2 points. The advice holds if the interval of a
difference is above 0, fails if it ends below 2 and both rows are flat, and is undecided otherwise.

1. "three levels" minus "three heads of one depth, equal parameters", both from discriminants.
2. "three levels" minus the better of the two frozen rows on validation classes.
"""

from benchmarks.studies.rows import decisive
from benchmarks.studies.rows.decisive import COLUMNS, FROZEN, FROZEN_LEVELS, HEADS, RATES, THREE
from tfdml.run.study.study import Study

FROM_DISCRIMINANTS = "--initial_embedding=auto"
TRAINED = {
    name: [*flags, FROM_DISCRIMINANTS, decisive.N_PAIR, *decisive.length(1600), "--eval_unit=steps"]
    for name, flags in ((THREE, decisive.levels("LMH")), (HEADS, decisive.OF_LEVELS[HEADS][:3]))
}
NOT_TRAINED = {name: [*decisive.DISCRIMINANTS[name], "--eval_unit=steps"] for name in (FROZEN, FROZEN_LEVELS)}
SETTINGS = {name: [[f"--optimizer=adam(learning_rate={rate})"] for rate in RATES[1:]] for name in TRAINED}
# The two of 384 dimensions.
SETTINGS |= {name: decisive.closed_forms(1)[1:] for name in NOT_TRAINED}

STUDY = Study(
    flagfile="configs/emoji.flags",
    rows=TRAINED | NOT_TRAINED,
    columns=COLUMNS,
    folder="runs/advice_on_emoji",
    settings=SETTINGS,
    differences=[(name, THREE) for name in (HEADS, FROZEN, FROZEN_LEVELS)],
)
