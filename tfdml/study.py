"""Trains flagfiles over seeds, and compares them: `python -m tfdml.study configs/a.flags configs/b.flags`.

Each flagfile is a row of the table; of one with `--folds` each fold is run, and a seed's scores are their means.
`python -m tfdml.study my_study`: the rows are those that a module declares, in `STUDY`. A flag that is not below is one
of training, for all rows. Every run has a directory of its own under `--runs`; one that is complete is not run again,
one that was stopped goes on.
"""

import re
import subprocess
import sys
from pathlib import Path

from absl import flags

from tfdml.console import command
from tfdml.console import flags as tfdml_flags

flags.DEFINE_list("seeds", ["0", "1", "2"], "Seeds, each a run of every row.")
flags.DEFINE_string("runs", "", "Folder of the run directories; empty: that of the study, runs/study of flagfiles.")
flags.DEFINE_string("records", "", "File that keeps complete runs' results, and goes on from those it has.")
flags.DEFINE_multi_string("row", [], "A row of the study, as often as wanted; all if not at all.")
flags.DEFINE_list(
    "metrics",
    ["recall_at_1", "recall_at_2", "recall_at_4", "recall_at_8"],
    "Metrics of the table of flagfiles; by the first, on validation classes, a flagfile is chosen.",
)
flags.DEFINE_multi_string("set", [], "A flag for every run, such as --set=--epochs=5.")
flags.DEFINE_bool("intervals", False, "Tell how much higher Recall@1 of each row is than of the first, and how sure.")
flags.DEFINE_bool("pairwise", False, "Compare all pairs of rows, with a correction for how many there are.")
flags.DEFINE_enum("format", "markdown", ["markdown", "csv", "latex", "json"], "Format of the tables.")
flags.DEFINE_string("out", "", "File of the tables; empty: print them.")
flags.DEFINE_string("curves", "", "Image file of the learning curves of all rows; empty: RUNS/curves.svg.")
tfdml_flags.define_debug()


def main(arguments):
    values = flags.FLAGS
    names = [each for each in arguments if not each.startswith("--")]
    of_training = [*values.set, *(each for each in arguments if each.startswith("--"))]
    are_seeds = values.seeds and all(re.fullmatch(r"0|[1-9]\d*", seed) for seed in values.seeds)
    if not are_seeds or len(set(values.seeds)) < len(values.seeds):
        raise ValueError(f"Expected --seeds=0,1,2, each once, received {','.join(values.seeds)}.")
    if not values.metrics:
        raise ValueError("--metrics is empty: expected metrics of the table, such as recall_at_1,map_at_r.")
    command.check_file("out")
    # Here, because they import NumPy, which help does without.
    from tfdml.run.study.driver import run_study, tables_of
    from tfdml.run.study.tables import FORMATS, write_tables

    study, compares = study_of(names, of_training, values.metrics), values.intervals or values.pairwise
    folder = values.runs or study.folder
    try:
        outcome = run_study(study, values.seeds, of_training, values.row, folder, values.records, compares)
    except subprocess.CalledProcessError as failed:
        print(f"{failed.cmd} ended with status {failed.returncode}.", file=sys.stderr)
        sys.exit(max(failed.returncode, 1))
    tables = tables_of(outcome, values.intervals, values.pairwise)
    if values.out:
        write_tables(tables, values.format, values.out)
    else:
        print(FORMATS[values.format](tables), end="")
    # Only now, because it imports what draws.
    from tfdml.reporting.pictures.model import draw_curves

    curves = values.curves or str(Path(folder) / "curves.svg")
    not_drawn = draw_curves(outcome.every_run(), curves, study.curve)
    if not_drawn is not None:
        for name in not_drawn:
            print(f"{name} is not drawn: ensembles have no learning curve, only their members.", file=sys.stderr)
        print(f"Learning curves: {curves}", file=sys.stderr)


def study_of(names, of_training, metrics):
    from tfdml.run.study.driver import of_flagfiles
    from tfdml.run.study.study import declared_by

    declared = declared_by(names[0]) if len(names) == 1 else None
    if declared:
        command.refuse_unused(["metrics"], f"{names[0]} has a table of its own")
        return declared
    # Of those that nobody has asked for, some protocols measure only the first.
    return of_flagfiles(names, of_training, metrics, required=flags.FLAGS["metrics"].present)


if __name__ == "__main__":
    # On standard output there are only tables.
    command.run(main, "MODULE|FLAGFILE...", others=True, messages="stderr")
