"""Trains what is missing of a study, and prints its tables."""

import itertools
import sys
from functools import partial
from pathlib import Path

from benchmarks.markdown import markdown
from benchmarks.studies.folds import folds_of, mean_of
from benchmarks.studies.measured import difference, measure, recall, significantly_better
from benchmarks.studies.runs import complete, resolved, runs_of
from benchmarks.studies.searches import search


def print_study(study, seeds, flags=(), only=(), folder="", records="", intervals=False, pairwise=False, curves=""):
    """Trains what is missing of a study, and prints its tables.

    Args:
        study: a `Study`.
        seeds: list of what `--seed` takes.
        flags: flags of training for all rows.
        only: names of its rows; all if there are none.
        folder: folder of the run directories; empty: the study's.
        records: file that keeps complete runs' results, and goes on from those it has; empty: none.
        intervals: whether to compare each row with the first.
        pairwise: whether to list which rows differ significantly from which.
        curves: image file of the learning curves of all rows; empty: `curves.svg` in the folder.
    """
    folder = folder or study.folder
    rows = _rows(study, only, flags, folder, records)
    planned = {name: _runs_of_seeds(row, seeds, folder, study.every_fold) for name, row in rows.items()}
    measures = study.measured or intervals or pairwise or records
    measuring = partial(measure, which=study.which, learners=study.learners) if measures else None
    results = _results_of(planned, records, measuring)
    run_dirs = {name: [_path_of(folds) for folds in of_seeds] for name, of_seeds in planned.items()}
    print(_table(study, results, run_dirs, intervals))
    _print_below(study, results, run_dirs, pairwise)
    _draw(planned, curves or str(Path(folder) / "curves.svg"), study.curve)


def _rows(study, only, flags, folder, records):
    """The flags of the rows that are printed, by their names; validation chooses where there are settings."""
    names = _names(study, only)
    followed = {name: study.follow.get(name, name) for name in names}
    _check_flags(study, dict.fromkeys([*names, *followed.values()]), flags)
    rows = {name: [*study.flags(name), *flags] for name in study.rows}
    if not study.settings:
        return {name: rows[name] for name in names}
    searched = {name: rows[name] for name in dict.fromkeys(followed.values())}
    found = search(searched, study.settings, folder, study.searching, records, study.which)
    print(f"{found.budget(study.searching)}\n\n{found.table()}\n")
    return {name: [*rows[name], *found.setting(chosen)] for name, chosen in followed.items()}


def _names(study, only):
    """Names of the rows that are printed."""
    unknown = [name for name in only if name not in study.rows]
    if unknown:
        raise ValueError(f"There is no row {unknown[0]!r}. Rows are: {'; '.join(study.rows)}.")
    return list(only or study.rows)


def _check_flags(study, names, flags):
    """Refuses a flag that cannot be read, and one for all rows that a row sets itself: its name would not be true."""
    given = {flag.partition("=")[0] for flag in flags}
    for name in names:
        setting = study.settings.get(study.follow.get(name, name), [[]])[0]
        both = [flag for flag in (*study.rows[name], *setting) if flag.partition("=")[0] in given]
        if both:
            raise ValueError(f"The row {name!r} has {both[0]}. Leave out the flag, or the row: --row=NAME chooses.")
        resolved([*study.flags(name), *flags])


def _runs_of_seeds(row, seeds, folder, every_fold):
    """The runs of each seed: one, or one for each fold."""
    folds = folds_of(row) if every_fold else [[]]
    return list(zip(*(runs_of([*row, *fold], seeds, folder) for fold in folds), strict=True))


def _results_of(planned, records, measuring):
    """The result of each seed, by the names of rows; of several folds it is their mean."""
    # All seeds of a fold before those of the next one.
    every = [run for of_seeds in planned.values() for of_fold in zip(*of_seeds, strict=True) for run in of_fold]
    found = {run.path: result for run, result in zip(every, complete(every, records, measuring), strict=True)}
    return {
        name: [mean_of([found[run.path] for run in folds]) for folds in of_seeds] for name, of_seeds in planned.items()
    }


def _path_of(folds):
    """The directory of a seed's run, or those of its folds."""
    paths = [run.path for run in folds]
    return paths if len(paths) > 1 else paths[0]


def _table(study, results, run_dirs, intervals):
    heads = [study.head, *study.columns]
    rows = {
        name: [name, *(column(results[name], paths) for column in study.columns.values())]
        for name, paths in run_dirs.items()
    }
    if intervals:
        first = next(iter(rows))
        heads.append(f"difference from {first}")
        for name, cells in rows.items():
            cells.append("" if name == first else difference(run_dirs[first], run_dirs[name]))
    return markdown(heads, list(rows.values()))


def _print_below(study, results, run_dirs, pairwise):
    """Prints what stands below the table."""
    conclusion = study.conclusion and study.conclusion(results)
    if conclusion:
        print(f"\n{conclusion}")
    for first, second in study.differences:
        if first in run_dirs and second in run_dirs:
            print(f"\n{second} minus {first}: {difference(run_dirs[first], run_dirs[second])}")
    if pairwise:
        print(f"\n{_pairwise(run_dirs)}")


def _pairwise(run_dirs):
    """For each row, best first, the rows that it is better than by more than chance: Markdown."""
    order = sorted(run_dirs, key=lambda name: -recall(run_dirs[name]))
    better = significantly_better([run_dirs[name] for name in order])
    lines = [
        [name, ", ".join(itertools.compress(order, row)) or "none"] for name, row in zip(order, better, strict=True)
    ]
    return markdown(["row, best first", "significantly better than"], lines)


def _draw(planned, path, metric):
    # Only here, because it loads what draws.
    from benchmarks.studies.curves import draw_curves

    run_dirs = {name: [run.path for folds in of_seeds for run in folds] for name, of_seeds in planned.items()}
    if draw_curves(run_dirs, path, metric):
        print(f"Learning curves: {path}", file=sys.stderr)
