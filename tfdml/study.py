"""Trains configurations with several seeds and compares them: `python -m tfdml.study configs/a.flags configs/b.flags`.

Each flagfile is a row of the table. If it sets `--folds`, each fold is trained, and the scores of a seed are the means
over its folds. `python -m tfdml.study my_study` instead trains the rows that the module `my_study` declares in `STUDY`.
All flags that are not listed below are passed on to every training run. Each run has its own directory in `--runs`. If
you repeat the command, complete runs are skipped and interrupted runs resume.
"""

import re
import subprocess
import sys
from pathlib import Path

from absl import flags

from tfdml.console import command
from tfdml.console import flags as tfdml_flags

flags.DEFINE_list("seeds", ["0", "1", "2"], "Random seeds. Every row is trained once with each seed.")
flags.DEFINE_string(
    "runs",
    "",
    "Folder for the run directories. If not set, the folder that the study declares, or runs/study for flagfiles.",
)
flags.DEFINE_string(
    "records", "", "File to store the results of complete runs in. Runs that it contains are not trained again."
)
flags.DEFINE_multi_string(
    "row", [], "Row of the study to train. Repeat the flag for several rows. If not set, all rows are trained."
)
flags.DEFINE_list(
    "metrics",
    ["recall_at_1", "recall_at_2", "recall_at_4", "recall_at_8"],
    "Metrics in the table, for flagfiles. The first one, on validation classes, selects the best flagfile, so it must "
    "be measured during training.",
)
flags.DEFINE_multi_string(
    "set", [], "Flag to pass to every run, such as --set=--epochs=5. Repeat it for several flags."
)
flags.DEFINE_bool(
    "intervals",
    False,
    "Also report by how much each row differs from the first in Recall@1, with a 95% confidence interval.",
)
flags.DEFINE_bool("pairwise", False, "Compare all pairs of rows, with a correction for multiple comparisons.")
flags.DEFINE_enum("format", "markdown", ["markdown", "csv", "latex", "json"], "Format of the tables.")
flags.DEFINE_string("out", "", "File to write the tables to. If not set, they are printed.")
flags.DEFINE_string("curves", "", "Image file for the learning curves of all rows. If not set, RUNS/curves.svg.")
tfdml_flags.define_debug()

# Flags of a run that a study sets for each of its runs, and its own flags for them.
INSTEAD = {"--seed": "--seeds", "--run_dir": "--runs"}


def main(arguments):
    values = flags.FLAGS
    names = [each for each in arguments if not each.startswith("--")]
    of_training = [*values.set, *(each for each in arguments if each.startswith("--"))]
    for each in of_training:
        if each.partition("=")[0] in INSTEAD:
            raise ValueError(f"{each} has no effect on a study. Use {INSTEAD[each.partition('=')[0]]} instead.")
    are_seeds = values.seeds and all(re.fullmatch(r"0|[1-9]\d*", seed) for seed in values.seeds)
    if not are_seeds or len(set(values.seeds)) < len(values.seeds):
        raise ValueError(
            "--seeds must be different integers of at least 0, such as 0,1,2. Received: "
            f"--seeds={','.join(values.seeds)}."
        )
    if not values.metrics:
        raise ValueError("--metrics is empty. Set it to metrics for the table, such as recall_at_1,map_at_r.")
    command.check_file("out")
    # Imported here, because NumPy would slow down --help.
    from tfdml.run.study.driver import run_study, tables_of
    from tfdml.run.study.tables import FORMATS, write_tables

    study, compares = study_of(names, of_training, values.metrics), values.intervals or values.pairwise
    folder = values.runs or study.folder
    try:
        outcome = run_study(study, values.seeds, of_training, values.row, folder, values.records, compares)
    except subprocess.CalledProcessError as failed:
        print(f"{failed.cmd} failed with exit status {failed.returncode}.", file=sys.stderr)
        sys.exit(max(failed.returncode, 1))
    tables = tables_of(outcome, values.intervals, values.pairwise)
    if values.out:
        write_tables(tables, values.format, values.out)
    else:
        print(FORMATS[values.format](tables), end="")
    # Imported last, because drawing needs packages that take seconds to import.
    from tfdml.reporting.pictures.model import draw_curves

    curves = values.curves or str(Path(folder) / "curves.svg")
    not_drawn = draw_curves(outcome.every_run(), curves, study.curve)
    if not_drawn is not None:
        for name in not_drawn:
            print(f"No learning curve is drawn for {name}: only members of an ensemble have one.", file=sys.stderr)
        print(f"Learning curves: {curves}", file=sys.stderr)


def study_of(names, of_training, metrics):
    from tfdml.run.study.driver import of_flagfiles
    from tfdml.run.study.study import declared_by

    declared = declared_by(names[0]) if len(names) == 1 else None
    if declared:
        command.refuse_unused(["metrics"], f"{names[0]} defines its own table")
        return declared
    # Some protocols measure only the first of the default metrics, so the others are not required.
    return of_flagfiles(names, of_training, metrics, required=flags.FLAGS["metrics"].present)


if __name__ == "__main__":
    # Messages go to standard error, so that standard output has only the tables.
    command.run(main, "MODULE|FLAGFILE...", others=True, messages="stderr")
