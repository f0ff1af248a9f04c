"""Runs flagfiles over seeds and prints what came out as a Markdown table.

`python -m benchmarks.study configs/a.flags configs/b.flags --seeds=0,1,2`: every run has a directory of its own under
`--runs`; one that is complete is not run again, one that was stopped goes on. Comparisons in the docs are made by it.
"""

import re
import statistics
import subprocess
import sys
from pathlib import Path

from absl import app, flags

from tfdml.flags import resolve
from tfdml.run_directory import RunDirectory

flags.DEFINE_list("seeds", ["0", "1", "2"], "Seeds, each a run of every flagfile.")
flags.DEFINE_string("runs", "runs/study", "Folder of the run directories.")
flags.DEFINE_list("metrics", ["recall_at_1", "recall_at_2", "recall_at_4", "recall_at_8"], "Metrics of the table.")
flags.DEFINE_multi_string("set", [], "A flag for every run, such as --set=--epochs=5; may be repeated.")


def main(arguments):
    flagfiles = arguments[1:]
    missing = [flagfile for flagfile in flagfiles if not Path(flagfile).is_file()]
    if missing or not flagfiles:
        raise app.UsageError(f"Expected flagfiles; {'there is no ' + missing[0] if missing else 'received none'}.")
    if not all(re.fullmatch(r"\d+", seed) for seed in flags.FLAGS.seeds):
        raise app.UsageError(f"Expected --seeds=0,1,2, received {','.join(flags.FLAGS.seeds)}.")
    results = {flagfile: run_seeds(flagfile) for flagfile in flagfiles}
    print(table(results, flags.FLAGS.metrics))


def run_seeds(flagfile):
    """The results of a flagfile's runs, one for each seed."""
    results = []
    for seed in flags.FLAGS.seeds:
        run_dir = Path(flags.FLAGS.runs) / f"{run_name(flagfile, flags.FLAGS.set)}-seed{seed}"
        run = RunDirectory(run_dir)
        # Refuses the result of a flagfile that has changed since.
        run.check_claim(resolve(arguments_of(flagfile, seed, run_dir)))
        if run.result() is None:
            print(f"{run_dir} ...", file=sys.stderr, flush=True)
            train(flagfile, seed, run_dir)
        results.append(run.result())
    return results


def run_name(flagfile, changes):
    """What a run is called: its flagfile and what was changed in it."""
    name = "-".join([Path(flagfile).stem, *changes])
    return re.sub(r"[^\w.=,-]+", "_", name.replace("--", ""))


def train(flagfile, seed, run_dir):
    """Trains in a process of its own, as a user would; stops the study if the run fails."""
    command = [sys.executable, "-m", "tfdml.train", *arguments_of(flagfile, seed, run_dir)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        status = process.wait()
    except KeyboardInterrupt:
        # Ctrl-C reached the run as well, which saves its step.
        status = process.wait()
    if status:
        print(f"{' '.join(command)} ended with status {status}.", file=sys.stderr)
        sys.exit(status)


def arguments_of(flagfile, seed, run_dir):
    """The flags of one run."""
    return [f"--flagfile={flagfile}", *flags.FLAGS.set, f"--seed={seed}", f"--run_dir={run_dir}"]


def table(results, metrics):
    """A Markdown table: a row for each flagfile, mean ± standard deviation over seeds, in percent."""
    names = [metric.replace("recall_at_", "R@") for metric in metrics]
    heads = ["run", "seeds", *(f"final {name}" for name in names), *(f"best {name}" for name in names), "seconds"]
    lines = [heads, ["---"] * len(heads)]
    for flagfile, runs in results.items():
        final = [spread([run["metrics"][metric] for run in runs]) for metric in metrics]
        best = [spread([run["best"][metric] for run in runs]) for metric in metrics]
        seconds = f"{statistics.mean(run['seconds'] for run in runs):.0f}"
        lines.append([Path(flagfile).stem, str(len(runs)), *final, *best, seconds])
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def spread(values):
    """Mean ± standard deviation of fractions, in percent."""
    deviation = f" ± {100 * statistics.stdev(values):.1f}" if len(values) > 1 else ""
    return f"{100 * statistics.mean(values):.1f}{deviation}"


if __name__ == "__main__":
    app.run(main)
