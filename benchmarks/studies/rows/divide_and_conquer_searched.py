"""Divide and Conquer with a search at full length: `python -m benchmarks.study divide_and_conquer_searched`.

Trains configs/toycars_dnc.flags with the rows of `divide_and_conquer_tuned` for 4,000 steps. Validation classes select
among four learning rates for each row, in runs that are as long as the reported runs. The last row was not trained,
because 20 validation classes with nearly all images right cannot choose a learning rate.
"""

from benchmarks.studies.added_rows import FOUR_TIMES
from benchmarks.studies.rows.divide_and_conquer import COLUMNS, FLAGFILE, SLICES
from benchmarks.studies.rows.divide_and_conquer_tuned import CHANGES as TUNED
from benchmarks.studies.rows.divide_and_conquer_tuned import MAIN, SEARCHING, SETTINGS
from tfdml.run.study.study import Study

CHANGES = {f"{name}{FOUR_TIMES}": TUNED[f"{name}{FOUR_TIMES}"] for name in MAIN}

STUDY = Study(
    flagfile=FLAGFILE,
    rows=CHANGES,
    columns=COLUMNS,
    folder="runs/divide_and_conquer",
    settings={name: SETTINGS for name in CHANGES},
    searching=SEARCHING,
    which="final",
    learners=SLICES,
)
