"""Measures the default configuration on folders of photos: `python -m benchmarks.studies.first_runs cars=data/cars`.

For each folder it runs `python -m tfdml.train --data_dir=FOLDER` with seed 0 and the flags after `--`, for example
`-- --initial_weights=mobilenet.weights.h5`. It keeps the results in --records and does not repeat a complete run. It
prints a Markdown table of all records: Recall@1 on the test classes, in percent, of the pretrained features, of the
initial embedding and of the best model, and the last minus the first with its 95% confidence interval.
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

HEADS = [
    "Dataset",
    "Test images",
    "Pretrained features",
    "Before training",
    "After training",
    "Improvement over the features (95% CI)",
    "Best model",
]
METRIC = "recall_at_1"


def row(name, result):
    """Returns the cells of a run."""
    best, gain = result["best"], result["gain"]
    where = f"step {best['step']:,}" + (f", weight interpolation {best['blend']}" if "blend" in best else "")
    scores = (each[METRIC] for each in (result["features"], result["untrained"], best))
    return [
        name.replace("-", " ").capitalize(),
        f"{best['queries']:,}",
        *(f"{100 * score:.1f}" for score in scores),
        Difference(gain["difference"], *gain["interval"]).text(),
        "before training" if best["step"] == 0 else where,
    ]


def table(records):
    """Returns the Markdown table of recorded runs."""
    return markdown(HEADS, [row(name, record["result"]) for name, record in records.items()])


def added(records):
    """Returns the smallest and the largest gain of training over the initial embedding, in percentage points."""
    results = [record["result"] for record in records.values()]
    gains = sorted(100 * (result["best"][METRIC] - result["untrained"][METRIC]) for result in results)
    return f"{gains[0]:.1f} to {gains[-1]:.1f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", metavar="NAME=FOLDER", help="Folders, with their names in the table.")
    parser.add_argument("--runs", type=Path, default="runs/first_runs", help="Folder of the run directories.")
    parser.add_argument("--records", required=True, help="File of the results.")
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
    print(table(read(arguments.records)))


if __name__ == "__main__":
    main()
