"""Trains the missing runs of a study, searches settings and creates its tables."""

import itertools
import statistics
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

from tfdml.console.flags import located, parse
from tfdml.console.scores import BEFORE_TRAINING
from tfdml.console.settings import names_of_switches
from tfdml.evaluation.metrics import metric_of
from tfdml.run.study.records import compared, interval, measure, recall
from tfdml.run.study.runs import complete, folds_of, mean_of, resolved, runs_of
from tfdml.run.study.study import Difference, Flags, Number, Study
from tfdml.run.study.tables import MetricOf, Table, spread_of, steps_to_best

METRIC = "recall_at_1"
# This seed does not depend on the seeds of a study, so that parts of it on several machines choose the same settings.
SEED = "0"


class Search(NamedTuple):
    """Settings that were tried for the rows of a study, and their scores.

    `tried` maps each row to pairs of a setting's flags and its score on validation classes. `searching` contains the
    flags that only the runs of the search have.
    """

    tried: dict
    searching: list

    def setting(self, name):
        """Returns the flags of a row's best setting on validation classes."""
        return max(self.tried[name], key=lambda setting: setting[1])[0]

    def budget(self):
        """Returns a sentence on what was tried."""
        count = len(next(iter(self.tried.values())))
        more = f" and {' '.join(f'`{flag}`' for flag in self.searching)}" if self.searching else ""
        return f"For each of these rows, validation chose among {count} settings with seed {SEED}{more}:"


def search(rows, settings, folder, searching=(), records=None, which="best"):
    """Trains each row with each of its settings and the seed 0. Returns the `Search`.

    Args:
        rows: dictionary from name of a row to its flags, a flagfile first.
        settings: dictionary from name of a row to a list of settings to try, each a list of flags.
        folder: folder of the run directories.
        searching: flags that only the runs of the search have.
        records: file with records of runs, or None.
        which: whether the `best` or the `final` models count.
    """
    counts = {name: len(settings[name]) for name in rows}
    if len(set(counts.values())) != 1:
        raise ValueError(f"Each row must have the same number of settings. Received: {counts}.")
    for name, flags in rows.items():
        if resolved([*flags, *searching])["evaluate_on"] != "--evaluate_on=validation":
            raise ValueError(
                f"The row {name!r} needs --evaluate_on=validation, because settings must not be chosen on the test set."
            )
    planned = trials_of(rows, settings, searching)
    results = complete([runs_of(flags, [SEED], folder)[0] for _, _, flags in planned], records)
    tried = {name: [] for name in rows}
    for (name, setting, _), result in zip(planned, results, strict=True):
        tried[name].append((setting, reached(result, which)))
    return Search(tried, list(searching))


def trials_of(rows, settings, searching):
    """Returns the runs of a search, each as the name of its row, its setting and all its flags; see `search`."""
    # Rows that differ only in such a flag share the runs of their search.
    replaced = {_name(flag) for flag in searching}
    kept = {name: [flag for flag in flags if _name(flag) not in replaced] for name, flags in rows.items()}
    return [(name, setting, [*kept[name], *setting, *searching]) for name in rows for setting in settings[name]]


def reached(result, which):
    """Returns the score of a run's result on validation classes, by which a search chooses."""
    return result["validation"]["best" if which == "best" else "metrics"][METRIC]


def _name(flag):
    """Returns the name of a flag with its dashes; `--noblend` sets the same flag as `--blend`."""
    name = flag.partition("=")[0]
    return f"--{name.removeprefix('--no')}" if name.removeprefix("--no") in names_of_switches() else name


@dataclass(frozen=True)
class Outcome:
    """The results of a study.

    `results` and `run_dirs` map each row to one entry per seed. With several folds, an entry is the mean of their
    results, or the list of their run directories. `search` is None if there was nothing to choose.
    """

    study: Study
    results: dict
    run_dirs: dict
    search: Search | None

    def every_run(self):
        """Returns a dictionary from name of a row to all its run directories."""
        return {
            name: [each for seed in seeds for each in (seed if isinstance(seed, list) else [seed])]
            for name, seeds in self.run_dirs.items()
        }


def run_study(study, seeds, flags=(), only=(), folder="", records="", measured=False):
    """Trains the missing runs of a study and returns the `Outcome`.

    Args:
        study: the `Study`.
        seeds: list of seeds.
        flags: training flags for all rows.
        only: names of the rows to train. If empty, all rows.
        folder: folder of the run directories. If empty, the study's.
        records: file that stores the results of complete runs, from which runs without a directory are restored.
        measured: whether to measure runs again for comparisons of rows, even if the study does not ask for it.
    """
    folder = folder or study.folder
    rows, searched = _flags_of_rows(study, only, flags, folder, records)
    # Each row has a list of seeds, and each seed a list of folds.
    planned = {}
    for name, row in rows.items():
        folds = folds_of(row) if study.every_fold else [[]]
        planned[name] = list(zip(*(runs_of([*row, *fold], seeds, folder) for fold in folds), strict=True))
    measures = study.measured or measured or records
    asked = {"which": study.which, "learners": study.learners, "elsewhere": study.elsewhere}
    measuring = partial(measure, **asked) if measures else None
    # All seeds of a fold are trained before the seeds of the next fold.
    every = [run for of_seeds in planned.values() for of_fold in zip(*of_seeds, strict=True) for run in of_fold]
    results = {run.path: result for run, result in zip(every, complete(every, records, measuring), strict=True)}
    return Outcome(
        study,
        {name: [mean_of([results[run.path] for run in folds]) for folds in seeds] for name, seeds in planned.items()},
        {
            name: [[run.path for run in folds] if len(folds) > 1 else folds[0].path for folds in seeds]
            for name, seeds in planned.items()
        },
        searched,
    )


def _flags_of_rows(study, only, flags, folder, records):
    """Returns the flags of each row by its name, and the `Search` that chose some of them, or None."""
    unknown = [name for name in only if name not in study.rows]
    if unknown:
        raise ValueError(f"The study has no row {unknown[0]!r}. Its rows are: {'; '.join(study.rows)}.")
    names = list(only or study.rows)
    followed = {name: study.follow.get(name, name) for name in names}
    rows = {name: [*study.flags(name), *flags] for name in study.rows}
    shared = {_name(flag) for flag in flags}
    for name in dict.fromkeys([*names, *followed.values()]):
        setting = study.settings.get(study.follow.get(name, name), [[]])[0]
        # If a flag of a row had another value, the name of the row would be wrong.
        both = [flag for flag in (*study.rows[name], *setting) if _name(flag) in shared]
        if both:
            raise ValueError(
                f"The row {name!r} already sets {both[0]}. Remove the flag, or select other rows with --row=NAME."
            )
        resolved(rows[name])
    if not study.settings:
        return {name: rows[name] for name in names}, None
    searched = {name: rows[name] for name in dict.fromkeys(followed.values())}
    found = search(searched, study.settings, folder, study.searching, records, study.which)
    return {name: [*rows[name], *found.setting(chosen)] for name, chosen in followed.items()}, found


def beginnings(study, results):
    """Returns rows of pretrained features and of models before training, once for all study rows that share them."""
    rows = []
    for which, written in BEFORE_TRAINING.items():
        # Maps the scores of all seeds, as text, to the rows that have them.
        in_common = {}
        for name, of_seeds in results.items():
            if all(which in result for result in of_seeds):
                in_common.setdefault(str([result[which] for result in of_seeds]), []).append(name)
        for names in in_common.values():
            more = f" and {len(names) - 1} more" if len(names) > 1 else ""
            head = written if len(names) == len(results) else f"{written} of {names[0]}{more}"
            scores = [result[which] for result in results[names[0]]]
            row = [head]
            for column in study.columns.values():
                is_measured = isinstance(column, MetricOf) and all(column.name in values for values in scores)
                row.append(spread_of(scores, column.name) if is_measured else "")
            rows.append(row)
    return rows


OF_PAIRS = (
    "Difference in Recall@1, second minus first, in percentage points, with simultaneous 95% confidence intervals and "
    "p-values corrected for the number of pairs:"
)


def tables_of(outcome, intervals=False, pairwise=False):
    """Returns the list of `Table` of an `Outcome`, with the table of its rows first.

    With `intervals`, each row is compared with the first row. With `pairwise`, all rows are compared with each other.
    """
    study, run_dirs, search = outcome.study, outcome.run_dirs, outcome.search
    tables = [_table_of_rows(outcome, intervals)]
    if search:
        tried = [
            [name, Flags(flags), Number(value, scale=100), "yes" if flags is search.setting(name) else ""]
            for name, settings in search.tried.items()
            for flags, value in settings
        ]
        heads = ["row", "setting", "validation Recall@1", "chosen"]
        tables.append(Table("settings", heads, tried, caption=search.budget()))
    differences = [
        [f"{second} minus {first}", Difference(*interval(run_dirs[first], run_dirs[second]))]
        for first, second in study.differences
        if first in run_dirs and second in run_dirs
    ]
    if differences:
        tables.append(Table("differences", ["rows", "difference of Recall@1"], differences))
    return [*tables, *(_tables_of_pairs(run_dirs) if pairwise else [])]


def _table_of_rows(outcome, intervals):
    study, run_dirs = outcome.study, outcome.run_dirs
    heads = [study.head, *study.columns]
    rows = {
        name: [name, *(column(outcome.results[name], paths) for column in study.columns.values())]
        for name, paths in run_dirs.items()
    }
    if intervals:
        first = next(iter(rows))
        heads.append(f"difference from {first}")
        for name, cells in rows.items():
            cells.append("" if name == first else Difference(*interval(run_dirs[first], run_dirs[name])))
    begun = [[*cells, ""] if intervals else cells for cells in beginnings(study, outcome.results)]
    conclusion = study.conclusion and study.conclusion(outcome.results)
    return Table("rows", heads, [*begun, *rows.values()], note=conclusion or "")


def _tables_of_pairs(run_dirs):
    """Compares all rows: a table of which rows each row is significantly better than, and a table of all pairs.

    Every difference is the second minus the first. The second row of a pair is the better one.
    """
    order = sorted(run_dirs, key=lambda name: -recall(run_dirs[name]))
    comparison = compared([run_dirs[name] for name in order])
    better = [
        [name, "; ".join(itertools.compress(order, row)) or "none"]
        for name, row in zip(order, comparison.larger(), strict=True)
    ]
    pairs = [
        [
            order[worse],
            order[best],
            Difference(*comparison.interval(best, worse)),
            Number(comparison.p_values[best, worse], ".2g"),
        ]
        for best, worse in itertools.combinations(range(len(order)), 2)
    ]
    tables = [Table("better", ["row, best first", "significantly better than"], better)]
    if pairs:
        tables.append(Table("pairs", ["first", "second", "second minus first", "p"], pairs, caption=OF_PAIRS))
    return tables


def of_flagfiles(flagfiles, flags, metrics, required=True):
    """Returns a study with one row per flagfile, which compares them by the first of the metrics.

    `flags` are training flags for all rows. A metric that runs have not measured is an error if `required`, else an
    empty cell.
    """
    missing = [flagfile for flagfile in flagfiles if not Path(located(flagfile)).is_file()]
    if missing or not flagfiles:
        received = f"{missing[0]}, which does not exist" if missing else "none"
        raise ValueError(f"Expected flagfiles, or a module that declares a study. Received: {received}.")
    rows = {Path(flagfile).stem: [f"--flagfile={flagfile}"] for flagfile in flagfiles}
    if len(rows) < len(set(flagfiles)):
        raise ValueError(f"Flagfiles must have different names. Received: {', '.join(flagfiles)}.")
    settings = [settings_of([*row, *flags], metrics if required else metrics[:1]) for row in rows.values()]
    validated = any(each.evaluation.evaluate_on == "validation" for each in settings)
    if validated and not metric_of(metrics[0]).while_training:
        raise ValueError(
            f"--metrics starts with {metrics[0]}, which runs only measure at their end, so it cannot select on "
            "validation classes. Name another metric first."
        )
    return Study(
        flagfile="",
        rows=rows,
        columns=columns(metrics, validated, required),
        folder="runs/study",
        head="run",
        curve=metrics[0],
        measured=False,
        every_fold=True,
        conclusion=lambda results: chosen_by_validation(results, metrics[0]),
    )


def settings_of(row, metrics):
    """Returns the settings of a row. Raises a ValueError if its runs do not measure all metrics of the table."""
    settings, _ = parse("\n".join(resolved(row).values()))
    measured = settings.evaluation.metrics
    if measured and (missing := [metric for metric in metrics if metric not in measured]):
        raise ValueError(
            f"{row[0].partition('=')[2]} measures {','.join(measured)}, but not {missing[0]}. Use --metrics that all "
            "runs measure, or change the runs with --set=--metrics=..."
        )
    return settings


def columns(metrics, validated, required=True):
    """Returns the columns of the table: mean ± standard deviation over seeds, in percent."""
    names = {short(metric): metric for metric in metrics}
    first = short(metrics[0])
    return {
        "seeds": lambda results, run_dirs: len(results),
        **({f"validation {first}": lambda results, run_dirs: validation_of(results, metrics[0])} if validated else {}),
        **{f"final {name}": MetricOf("metrics", metric, required) for name, metric in names.items()},
        **{f"best {name}": MetricOf("best", metric, required) for name, metric in names.items()},
        "steps to the best": steps_to_best,
        "seconds": seconds,
    }


def seconds(results, run_dirs):
    return Number(statistics.mean(result["seconds"] for result in results), ".0f")


def validation_of(results, metric):
    if not all("validation" in result for result in results):
        return "none"
    return spread_of([result["validation"]["best"] for result in results], metric)


def chosen_by_validation(results, metric):
    """Returns a sentence on the row with the best models on validation classes, or None if that is unknown."""
    if len(results) < 2 or not all("validation" in run for runs in results.values() for run in runs):
        return None
    best = max(results, key=lambda name: statistics.mean(run["validation"]["best"][metric] for run in results[name]))
    return f"Chosen by {short(metric)} on validation classes: {best}"


def short(metric):
    """Returns the short name of a metric for a table."""
    return metric.replace("recall_at_", "R@")
