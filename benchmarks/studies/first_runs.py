"""Results of `python -m tfdml.train --data_dir=photos`: `python -m benchmarks.studies.first_runs cars=data/cars`.

Trains on each folder with that command and seed 0, as a first run is, with the flags that follow `--`, such as
`-- --initial_weights=mobilenet.weights.h5`, and keeps the results in --records. A complete run is not trained again.
Prints a Markdown table of all that are recorded: Recall@1 of the pretrained features, of the embedding before training
and of the best model, on test classes, in percent, and the last minus the first with its 95% interval.
"""

import argparse
import subprocess
import sys
from pathlib import Path

from benchmarks.markdown import markdown
from tfdml.console.startup import TrainingStopped
from tfdml.run.directory.run_directory import RunDirectory
from tfdml.run.study.records import keep, read
from tfdml.run.study.runs import train
from tfdml.run.study.study import Difference

HEADS = ["folder", "test photos", "features", "before training", "best", "best - features", "the best"]
METRIC = "recall_at_1"


def row(name, result):
    """Cells of a run."""
    best, gain = result["best"], result["gain"]
    where = f"step {best['step']:,}" + (f", blend {best['blend']}" if "blend" in best else "")
    scores = (each[METRIC] for each in (result["features"], result["untrained"], best))
    return [
        name,
        f"{best['queries']:,}",
        *(f"{100 * score:.1f}" for score in scores),
        Difference(gain["difference"], *gain["interval"]).text(),
        "before training" if best["step"] == 0 else where,
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", metavar="NAME=FOLDER", help="folders of photos, by names for the table")
    parser.add_argument("--runs", type=Path, default="runs/first_runs", help="folder of the run directories")
    parser.add_argument("--records", required=True, help="file of the results")
    place = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    arguments, flags = parser.parse_args(sys.argv[1:place]), sys.argv[place + 1 :]
    for name, folder in (each.split("=", 1) for each in arguments.folders):
        run_dir = arguments.runs / name
        if RunDirectory(run_dir).result() is None:
            try:
                train([f"--data_dir={folder}", *flags, f"--run_dir={run_dir}"])
            except (TrainingStopped, subprocess.CalledProcessError) as ended:
                sys.exit(str(ended))
        keep(run_dir, arguments.records)
    print(markdown(HEADS, [row(name, record["result"]) for name, record in read(arguments.records).items()]))


if __name__ == "__main__":
    main()
