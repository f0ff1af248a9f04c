"""Trains what is missing of a study."""

from dataclasses import dataclass
from functools import partial

from tfdml.run.study.declaration import Study
from tfdml.run.study.folds import folds_of, mean_of
from tfdml.run.study.measured import measure
from tfdml.run.study.runs import complete, resolved, runs_of
from tfdml.run.study.searches import Search, search


@dataclass(frozen=True)
class Outcome:
    """The results of a study.

    Args:
        study: the `Study`.
        results: name of the row to the result of each seed; of several folds it is their mean.
        run_dirs: name of the row to the run directory of each seed, or to a list of those of its folds.
        search: the `Search` for settings; None where there was nothing to choose.
    """

    study: Study
    results: dict
    run_dirs: dict
    search: Search | None

    def every_run(self):
        """Name of the row to all its run directories."""
        return {
            name: [each for seed in seeds for each in (seed if isinstance(seed, list) else [seed])]
            for name, seeds in self.run_dirs.items()
        }


def run_study(study, seeds, flags=(), only=(), folder="", records="", measured=False):
    """Trains what is missing of a study, and returns the `Outcome`.

    Args:
        study: a `Study`.
        seeds: list of what `--seed` takes.
        flags: flags of training for all rows.
        only: names of its rows; all if there are none.
        folder: folder of the run directories; empty: the study's.
        records: file that keeps complete runs' results, and goes on from those it has; empty: none.
        measured: whether runs are measured once more, as comparisons of rows need it, even if the study does not ask.
    """
    folder = folder or study.folder
    rows, found = _rows(study, only, flags, folder, records)
    planned = {name: _runs_of_seeds(row, seeds, folder, study.every_fold) for name, row in rows.items()}
    measures = study.measured or measured or records
    measuring = partial(measure, which=study.which, learners=study.learners) if measures else None
    results = _results_of(planned, records, measuring)
    run_dirs = {name: [_path_of(folds) for folds in of_seeds] for name, of_seeds in planned.items()}
    return Outcome(study, results, run_dirs, found)


def _rows(study, only, flags, folder, records):
    """The flags of the rows, by their names, and the `Search` that chose some of them, or None."""
    names = _names(study, only)
    followed = {name: study.follow.get(name, name) for name in names}
    _check_flags(study, dict.fromkeys([*names, *followed.values()]), flags)
    rows = {name: [*study.flags(name), *flags] for name in study.rows}
    if not study.settings:
        return {name: rows[name] for name in names}, None
    searched = {name: rows[name] for name in dict.fromkeys(followed.values())}
    found = search(searched, study.settings, folder, study.searching, records, study.which)
    return {name: [*rows[name], *found.setting(chosen)] for name, chosen in followed.items()}, found


def _names(study, only):
    """Names of the rows that are trained."""
    unknown = [name for name in only if name not in study.rows]
    if unknown:
        raise ValueError(f"There is no row {unknown[0]!r}. Rows are: {'; '.join(study.rows)}.")
    return list(only or study.rows)


def _check_flags(study, names, flags):
    """Refuses a flag that cannot be read, and one for all rows that a row sets itself: its name would not be true."""
    shared = {flag.partition("=")[0] for flag in flags}
    for name in names:
        setting = study.settings.get(study.follow.get(name, name), [[]])[0]
        both = [flag for flag in (*study.rows[name], *setting) if flag.partition("=")[0] in shared]
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
