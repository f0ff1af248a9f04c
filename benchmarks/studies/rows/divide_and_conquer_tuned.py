"""Divide and Conquer on toy cars with tuned learning rates: `python -m benchmarks.study divide_and_conquer_tuned`.

Trains configs/toycars_dnc.flags with the main rows of `divide_and_conquer`. Validation classes select among four
learning rates for each row with one seed. A row with more steps uses the learning rate of the row without. It prints a
Markdown table of all learning rates, and one of all seeds with the columns of `divide_and_conquer`, for the final
models on test classes. Differences between rows follow below the table. It keeps the runs and does not train a complete
run again.
"""

from benchmarks.studies.added_rows import EIGHT_TIMES, FOUR_TIMES, add_rows
from benchmarks.studies.rows.divide_and_conquer import CHANGES as UNTUNED
from benchmarks.studies.rows.divide_and_conquer import COLUMNS, FLAGFILE, SLICES
from tfdml.run.study.study import Study

ONE, DIVIDED, BY_IMAGES, TURNS = "one embedding", "K = 4", "K = 4, in proportion to images", "K = 4, turns on all data"
MAIN = (ONE, DIVIDED, BY_IMAGES, TURNS)
CONTROLS = ("K = 4, embedding not split", "K = 4, every slice on every batch")
FOLLOW = {f"{name}{FOUR_TIMES}": name for name in MAIN}
CHANGES = {name: UNTUNED[name] for name in (*MAIN, *CONTROLS, *FOLLOW)}
# These rows train until neither improves.
add_rows(CHANGES, FOLLOW, (ONE, BY_IMAGES), EIGHT_TIMES, "--epochs=64")
# The flagfile has 0.001.
LOWER, *HIGHER = ([f"--optimizer=adam(learning_rate={rate})"] for rate in ("0.0003", "0.003", "0.01"))
SETTINGS = [LOWER, [], *HIGHER]
SEARCHING = ("--evaluate_on=validation",)
# The second row minus the first: the effects of Divide and Conquer, clusters and their sampling.
PAIRS = [(ONE, DIVIDED), (ONE, BY_IMAGES), (TURNS, DIVIDED), (TURNS, BY_IMAGES), (DIVIDED, BY_IMAGES)]
DIFFERENCES = [(f"{first}{more}", f"{second}{more}") for more in ("", FOUR_TIMES) for first, second in PAIRS]
DIFFERENCES += [(f"{ONE}{EIGHT_TIMES}", f"{BY_IMAGES}{EIGHT_TIMES}"), *((ONE, name) for name in CONTROLS)]

STUDY = Study(
    flagfile=FLAGFILE,
    rows=CHANGES,
    columns=COLUMNS,
    folder="runs/divide_and_conquer",
    settings={name: SETTINGS for name in CHANGES if name not in FOLLOW},
    searching=SEARCHING,
    follow=FOLLOW,
    which="final",
    learners=SLICES,
    differences=DIFFERENCES,
)
