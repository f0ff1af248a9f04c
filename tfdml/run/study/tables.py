"""The tables of a study."""

import itertools

from tfdml.run.study.beginnings import beginnings
from tfdml.run.study.cells import Difference, Flags, Number
from tfdml.run.study.measured import compared, interval, recall
from tfdml.run.study.table import Table

OF_PAIRS = (
    "How much higher Recall@1 of the second is, with intervals that hold for all pairs together with 95 %, and "
    "p-values corrected for their number:"
)


def tables_of(outcome, intervals=False, pairwise=False):
    """Returns the tables of a study, a list of `Table`, that of the rows first.

    Args:
        outcome: the `Outcome`.
        intervals: whether to compare each row with the first.
        pairwise: whether to compare all rows with each other.
    """
    return [
        _rows(outcome, intervals),
        *_settings(outcome.search),
        *_differences(outcome),
        *(_pairs(outcome.run_dirs) if pairwise else []),
    ]


def _rows(outcome, intervals):
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


def _settings(search):
    """What was tried of each row: Recall@1 on validation classes."""
    if search is None:
        return []
    rows = [
        [name, Flags(flags), Number(value, scale=100), "yes" if flags is search.setting(name) else ""]
        for name, tried in search.tried.items()
        for flags, value in tried
    ]
    return [Table("settings", ["row", "setting", "validation Recall@1", "chosen"], rows, caption=search.budget())]


def _differences(outcome):
    """Those that the study declares, of rows that are there."""
    rows = [
        [f"{second} minus {first}", Difference(*interval(outcome.run_dirs[first], outcome.run_dirs[second]))]
        for first, second in outcome.study.differences
        if first in outcome.run_dirs and second in outcome.run_dirs
    ]
    return [Table("differences", ["rows", "difference of Recall@1"], rows)] if rows else []


def _pairs(run_dirs):
    """For each row, best first, the rows that it is better than by more than chance; and all pairs, with numbers.

    Every difference is the second minus the first. The second row of a pair is the better one.
    """
    order = sorted(run_dirs, key=lambda name: -recall(run_dirs[name]))
    found = compared([run_dirs[name] for name in order])
    better = [
        [name, "; ".join(itertools.compress(order, row)) or "none"]
        for name, row in zip(order, found.larger(), strict=True)
    ]
    pairs = [
        [
            order[worse],
            order[best],
            Difference(*found.interval(best, worse)),
            Number(found.p_values[best, worse], ".2g"),
        ]
        for best, worse in itertools.combinations(range(len(order)), 2)
    ]
    return [
        Table("better", ["row, best first", "significantly better than"], better),
        *([Table("pairs", ["first", "second", "second minus first", "p"], pairs, caption=OF_PAIRS)] * bool(pairs)),
    ]
