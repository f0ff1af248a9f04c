"""Whether validation classes of other makers choose a better rate: `python -m benchmarks.study validation_by_maker`.

This file was committed before its runs. Two searches of decisive.py suggested the question: on half of Cars196,
validation classes found the learning rate 3e-4 about as good as 1e-4, but on the test classes 3e-4 was 3 to 8 points
worse. The classes are sorted by maker, and the first half is for training, so test classes are of other makers.
Validation classes are drawn from the first half at random, and their makers occur in training. Here validation holds
out whole makers instead, with `class_groups`.

**Protocol.** As the searches of claim 1 in decisive.py, with the same flags, steps and seed 0. Only `--dataset`
differs, and with it the choice of the validation and training classes. Each row has one run per learning rate, 1e-4 and
3e-4.

**Rule.** The question is which of the two rates validation chooses. The advice to hold out whole groups *holds* if
validation chooses 1e-4 for both rows, *fails* if it chooses 3e-4 for both, and is undecided otherwise. It also fails if
3e-4 is better on the test classes, where a choice of 1e-4 would be wrong.

`python -m benchmarks.study validation_by_maker --data_dir=data/cars --seeds=0` reports the runs of the search.
"""

from benchmarks.studies.rows.decisive import BEST_AND_LAST, HEADS, OF_LEVELS, RATES, THREE, gained_late
from tfdml.run.study.study import Study

BY_MAKER = "--dataset=folder(class_groups='maker')"
ROWS = {name: [*OF_LEVELS[name], BY_MAKER] for name in (THREE, HEADS)}

STUDY = Study(
    flagfile="configs/cars_half.flags",
    rows=ROWS,
    columns={**BEST_AND_LAST, "gain in the last quarter": gained_late},
    folder="runs/validation_by_maker",
    settings={name: [[f"--optimizer=adam(learning_rate={rate})"] for rate in RATES[1:]] for name in ROWS},
)
