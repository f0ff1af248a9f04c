"""Trains the rows of a study over seeds, and prints what came out as a Markdown table.

`python -m benchmarks.study emoji_losses --data_dir=data/emoji`: a study of benchmarks/studies/rows, whose rows are
changes of a flagfile. `python -m benchmarks.study configs/a.flags configs/b.flags`: each flagfile is a row; of one with
`--folds` each fold is run, and a seed's scores are their means. A flag that is not below is one of training, for all
rows. Every run has a directory of its own under `--runs`; one that is complete is not run again, one that was stopped
goes on. Comparisons in the docs are made by it.
"""

import importlib
import pkgutil
import re
from pathlib import Path

from absl import flags

from benchmarks.studies import rows
from benchmarks.studies.driver import print_study
from benchmarks.studies.flagfiles import of_flagfiles
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
flags.DEFINE_bool("pairwise", False, "List which rows differ significantly from which.")
flags.DEFINE_string("curves", "", "Image file of the learning curves of all rows; empty: RUNS/curves.svg.")
tfdml_flags.define_debug()


def main(given):
    values = flags.FLAGS
    names = [each for each in given if not each.startswith("--")]
    of_training = [*values.set, *(each for each in given if each.startswith("--"))]
    if not all(re.fullmatch(r"\d+", seed) for seed in values.seeds):
        raise ValueError(f"Expected --seeds=0,1,2, received {','.join(values.seeds)}.")
    print_study(
        study_of(names, of_training, values.metrics),
        values.seeds,
        of_training,
        only=values.row,
        folder=values.runs,
        records=values.records,
        intervals=values.intervals,
        pairwise=values.pairwise,
        curves=values.curves,
    )


def study_of(names, of_training, metrics):
    """Returns the study of a name, or that of flagfiles."""
    known = [module.name for module in pkgutil.iter_modules(rows.__path__)]
    if len(names) == 1 and names[0] in known:
        command.refuse_unused(["metrics"], f"{names[0]} has a table of its own")
        return importlib.import_module(f"{rows.__name__}.{names[0]}").STUDY
    missing = [name for name in names if not Path(name).is_file()]
    if missing or not names:
        received = f"there is no {missing[0]}" if missing else "received none"
        raise ValueError(f"Expected flagfiles, or one study of {', '.join(known)}; {received}.")
    return of_flagfiles(names, of_training, metrics)


if __name__ == "__main__":
    command.run(main, "STUDY|FLAGFILE...", others=True)
