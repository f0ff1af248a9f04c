"""Runs flagfiles over seeds and prints what came out as a Markdown table.

`python -m benchmarks.study configs/a.flags configs/b.flags --seeds=0,1,2`: every run has a directory of its own under
`--runs`; one that is complete is not run again, one that was stopped goes on. Of a flagfile with `--folds` each fold is
run, and a seed's scores are their means. Comparisons in the docs are made by it.
"""

import itertools
import re
import statistics
from functools import partial
from pathlib import Path

from absl import flags

from benchmarks.measured import difference, measure
from benchmarks.runs import complete, markdown, runs_of, spread, steps_to_best
from tfdml.console import command
from tfdml.console import flags as tfdml_flags

flags.DEFINE_list("seeds", ["0", "1", "2"], "Seeds, each a run of every flagfile.")
flags.DEFINE_string("runs", "runs/study", "Folder of the run directories.")
flags.DEFINE_list(
    "metrics",
    ["recall_at_1", "recall_at_2", "recall_at_4", "recall_at_8"],
    "Metrics of the table; by the first, on validation classes, a flagfile is chosen.",
)
flags.DEFINE_multi_string("set", [], "A flag for every run, such as --set=--epochs=5.")
flags.DEFINE_bool(
    "intervals",
    False,
    "Tell how much higher Recall@1 of each best model is than of the first flagfile's, and how sure.",
)
flags.DEFINE_string("curves", "", "Image file for the learning curves of all flagfiles, such as curves.svg.")
tfdml_flags.define_debug()


def main(flagfiles):
    values = flags.FLAGS
    missing = [flagfile for flagfile in flagfiles if not Path(flagfile).is_file()]
    if missing or not flagfiles:
        raise ValueError(f"Expected flagfiles; {'there is no ' + missing[0] if missing else 'received none'}.")
    if not all(re.fullmatch(r"\d+", seed) for seed in values.seeds):
        raise ValueError(f"Expected --seeds=0,1,2, received {','.join(values.seeds)}.")
    for flagfile in flagfiles:
        check_metrics(flagfile, values.set, values.metrics)
    planned = plan(flagfiles, values.set, values.seeds, values.runs)
    results = results_of(planned, partial(measure, which="best") if values.intervals else None)
    print(table(results, values.metrics))
    chosen = chosen_by_validation(results, values.metrics[0])
    if chosen:
        print(f"\nChosen by {short(values.metrics[0])} on validation classes: {chosen}")
    # Of each flagfile, and of each seed, its folds.
    run_dirs = {
        Path(flagfile).stem: [[run.path for run in of_a_seed] for of_a_seed in zip(*folds, strict=True)]
        for flagfile, folds in planned.items()
    }
    if values.intervals:
        print_differences(run_dirs)
    if values.curves:
        # Only here, because it loads what draws.
        from benchmarks.curves import draw_curves

        every = {name: list(itertools.chain.from_iterable(of_seeds)) for name, of_seeds in run_dirs.items()}
        draw_curves(every, values.curves, values.metrics[0])


def check_metrics(flagfile, changes, metrics):
    """Raises if a flagfile's runs measure only some metrics of the table, or if a flag cannot be read."""
    try:
        resolved = tfdml_flags.resolve([f"--flagfile={flagfile}", *changes])
    except flags.Error as error:
        raise ValueError(f"{flagfile}: {error}") from None
    measured = tfdml_flags.parse("\n".join(resolved.values()))[0].evaluation.metrics
    missing = [metric for metric in metrics if measured and metric not in measured]
    if missing:
        raise ValueError(
            f"{flagfile} measures {','.join(measured)}, and not {missing[0]}. Give --metrics of the study that it "
            "measures, or --set=--metrics=... for all runs."
        )


def print_differences(run_dirs):
    """Prints how much higher measured Recall@1 of each row is than that of the first row."""
    first, *others = run_dirs
    for name in others:
        print(f"\n{name} minus {first}, Recall@1: {difference(run_dirs[first], run_dirs[name])}")


def plan(flagfiles, changes, seeds, folder):
    """`{flagfile: runs}`, a list of runs for each fold, one for each seed."""
    return {
        flagfile: [runs_of(flagfile, [*changes, *fold], seeds, folder) for fold in folds_of(flagfile, changes)]
        for flagfile in flagfiles
    }


def results_of(planned, measure=None):
    """`{flagfile: results}`, one for each seed: of several folds their mean; `measure` is that of `complete`."""
    every = [run for folds in planned.values() for runs in folds for run in runs]
    results = iter(complete(every, measure=measure))
    found = {}
    for flagfile, folds in planned.items():
        by_fold = [[next(results) for _ in runs] for runs in folds]
        found[flagfile] = [mean_of(of_a_seed) for of_a_seed in zip(*by_fold, strict=True)]
    return found


def folds_of(flagfile, changes):
    """The flags that make each fold of a flagfile's runs; one fold without flags where there are no folds."""
    resolved = tfdml_flags.resolve([f"--flagfile={flagfile}", *changes])
    settings, _ = tfdml_flags.parse("\n".join(resolved.values()))
    if any(change.startswith("--fold=") for change in changes):
        return [[]]
    return [[f"--fold={fold}"] for fold in range(settings.evaluation.folds)] or [[]]


def mean_of(results):
    """The mean of results: of `metrics`, `best` and `validation`, and of the seconds."""
    names = [name for name in ("metrics", "best", "validation", "seconds") if name in results[0]]
    return {name: _mean([result[name] for result in results]) for name in names}


def _mean(values):
    """The mean of numbers, or, name by name, of dictionaries of numbers; what else they hold is left out."""
    if isinstance(values[0], dict):
        numbers = [name for name, value in values[0].items() if isinstance(value, dict | float | int)]
        return {name: _mean([value[name] for value in values]) for name in numbers}
    return statistics.mean(values)


def table(results, metrics):
    """A Markdown table: a row for each flagfile, mean ± standard deviation over seeds, in percent."""
    names = [short(metric) for metric in metrics]
    validated = any("validation" in run for runs in results.values() for run in runs)
    heads = ["run", "seeds", *[f"validation {names[0]}"] * validated]
    heads += [*(f"final {name}" for name in names), *(f"best {name}" for name in names), "steps to the best", "seconds"]
    rows = []
    for flagfile, runs in results.items():
        chosen_by = [spread(validation_scores(runs, metrics[0])) if "validation" in runs[0] else "none"] * validated
        final = [spread([run["metrics"][metric] for run in runs]) for metric in metrics]
        best = [spread([run["best"][metric] for run in runs]) for metric in metrics]
        seconds = f"{statistics.mean(run['seconds'] for run in runs):.0f}"
        rows.append([Path(flagfile).stem, str(len(runs)), *chosen_by, *final, *best, steps_to_best(runs), seconds])
    return markdown(heads, rows)


def chosen_by_validation(results, metric):
    """Name of the flagfile whose best models are best on validation classes; None where that cannot be said."""
    if len(results) < 2 or not all("validation" in run for runs in results.values() for run in runs):
        return None
    return Path(max(results, key=lambda flagfile: statistics.mean(validation_scores(results[flagfile], metric)))).stem


def validation_scores(runs, metric):
    """Returns the metrics of the best models of runs on validation classes."""
    return [run["validation"]["best"][metric] for run in runs]


def short(metric):
    """A metric's name in a table."""
    return metric.replace("recall_at_", "R@")


if __name__ == "__main__":
    command.run(main, "FLAGFILE...")
