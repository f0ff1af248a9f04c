"""Runs flagfiles over seeds and prints what came out as a Markdown table.

`python -m benchmarks.study configs/a.flags configs/b.flags --seeds=0,1,2`: every run has a directory of its own under
`--runs`; one that is complete is not run again, one that was stopped goes on. Comparisons in the docs are made by it.
"""

import re
import statistics
from pathlib import Path

from absl import app, flags

from benchmarks.runs import markdown, results_of, spread

flags.DEFINE_list("seeds", ["0", "1", "2"], "Seeds, each a run of every flagfile.")
flags.DEFINE_string("runs", "runs/study", "Folder of the run directories.")
flags.DEFINE_list("metrics", ["recall_at_1", "recall_at_2", "recall_at_4", "recall_at_8"], "Metrics of the table.")
flags.DEFINE_multi_string("set", [], "A flag for every run, such as --set=--epochs=5; may be repeated.")


def main(arguments):
    values, flagfiles = flags.FLAGS, arguments[1:]
    missing = [flagfile for flagfile in flagfiles if not Path(flagfile).is_file()]
    if missing or not flagfiles:
        raise app.UsageError(f"Expected flagfiles; {'there is no ' + missing[0] if missing else 'received none'}.")
    if not all(re.fullmatch(r"\d+", seed) for seed in values.seeds):
        raise app.UsageError(f"Expected --seeds=0,1,2, received {','.join(values.seeds)}.")
    results = {flagfile: results_of(flagfile, values.set, values.seeds, values.runs) for flagfile in flagfiles}
    print(table(results, values.metrics))


def table(results, metrics):
    """A Markdown table: a row for each flagfile, mean ± standard deviation over seeds, in percent."""
    names = [metric.replace("recall_at_", "R@") for metric in metrics]
    heads = ["run", "seeds", *(f"final {name}" for name in names), *(f"best {name}" for name in names), "seconds"]
    rows = []
    for flagfile, runs in results.items():
        final = [spread([run["metrics"][metric] for run in runs]) for metric in metrics]
        best = [spread([run["best"][metric] for run in runs]) for metric in metrics]
        seconds = f"{statistics.mean(run['seconds'] for run in runs):.0f}"
        rows.append([Path(flagfile).stem, str(len(runs)), *final, *best, seconds])
    return markdown(heads, rows)


if __name__ == "__main__":
    app.run(main)
