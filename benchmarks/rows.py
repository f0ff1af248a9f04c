"""Studies whose rows each change a flagfile: trains them and prints a table."""

import argparse
import itertools
import sys
from functools import partial
from pathlib import Path

from benchmarks.measured import difference, measure, recall, significantly_better
from benchmarks.runs import complete, markdown, runs_of
from benchmarks.searches import search

# End the names of rows that change nothing but the steps, or the size of images.
FOUR_TIMES, EIGHT_TIMES = (f", {times} times the steps" for times in ("four", "eight"))
LARGER = ", at 96 px"


def compare(
    about,
    flagfile,
    changes,
    folder,
    heads,
    row,
    settings=None,
    searching=(),
    follow=None,
    which="best",
    learners=0,
    differences=(),
):
    """A command line that trains a flagfile with changes and several seeds, and prints a row of a table for each.

    Flags that it does not know are those of training, for all rows.

    Args:
        about: what it says of itself.
        flagfile: path.
        changes: name of the row to its flags, a list such as `["--method=single"]`.
        folder: folder of the run directories unless `--runs` says another.
        heads: heads of the table, the first for the names of the rows.
        row: function of a row's results and run directories that gives its cells.
        settings: name of the row to the settings among which validation chooses, each a list of flags, and as many for
            each row; None where there is nothing to choose.
        searching: flags of the runs that search alone, such as fewer members.
        follow: name of a row without settings to the row whose chosen setting it has.
        which: `best` or `final` model, by which settings are chosen, rows differ and learners are measured.
        learners: as `benchmarks.measured.measure` takes it.
        differences: pairs of names of rows. Below the table is how much higher Recall@1 of each second one is.
    """
    arguments, flags = _parsed(about, changes, folder)
    seeds, names = arguments.seeds.split(","), arguments.row or list(changes)
    follow = {name: (follow or {}).get(name, name) for name in names}
    set_by = {name: (settings or {}).get(follow.get(name, name), [[]])[0] for name in changes}
    _check_flags({name: [*changes[name], *set_by[name]] for name in [*names, *follow.values()]}, flags)
    changes = {name: [*each, *flags] for name, each in changes.items()}
    if settings:
        searched = {name: changes[name] for name in dict.fromkeys(follow.values())}
        found = search(flagfile, searched, settings, arguments.runs, searching, arguments.records, which)
        print(f"{found.budget(searching)}\n\n{found.table()}\n")
        changes = {name: [*changes[name], *found.setting(chosen)] for name, chosen in follow.items()}
    runs = {name: runs_of(flagfile, changes[name], seeds, arguments.runs) for name in names}
    every = [run for several in runs.values() for run in several]
    results = iter(complete(every, arguments.records, partial(measure, which=which, learners=learners)))
    run_dirs = {name: [run.path for run in several] for name, several in runs.items()}
    rows = {name: [name, *row([next(results) for _ in paths], paths)] for name, paths in run_dirs.items()}
    if arguments.intervals:
        heads = [*heads, f"difference from {names[0]}"]
        for name in names:
            rows[name].append("" if name == names[0] else difference(run_dirs[names[0]], run_dirs[name]))
    print(markdown(heads, list(rows.values())))
    for first, second in differences:
        if first in names and second in names:
            print(f"\n{second} minus {first}: {difference(run_dirs[first], run_dirs[second])}")
    if arguments.pairwise:
        print(f"\n{_pairwise(run_dirs)}")
    # Only here, because it loads what draws.
    from benchmarks.curves import draw_curves

    curves = arguments.curves or str(Path(arguments.runs) / "curves.svg")
    if draw_curves(run_dirs, curves):
        print(f"Learning curves: {curves}", file=sys.stderr)


def add_rows(changes, follow, names, more, *flags):
    """Adds rows that change others further, and have their settings.

    Args:
        changes, follow: as `compare` takes them; both grow.
        names: names of the rows that are changed further.
        more: what is added to their names.
        flags: flags that are added to theirs.
    """
    for name in names:
        changes[f"{name}{more}"] = [*changes[name], *flags]
        follow[f"{name}{more}"] = name


def _check_flags(changes, flags):
    """Refuses a flag for all rows that a row sets itself, which would no longer be what its name says."""
    given = {flag.partition("=")[0] for flag in flags}
    for name, change in changes.items():
        both = [flag for flag in change if flag.partition("=")[0] in given]
        if both:
            raise ValueError(
                f"The row {name!r} has {both[0]}. Leave out the flag, or the row: --row=NAME chooses rows."
            )


def _pairwise(run_dirs):
    """For each row, best first, the rows that it is better than by more than chance: Markdown."""
    order = sorted(run_dirs, key=lambda name: -recall(run_dirs[name]))
    better = significantly_better([run_dirs[name] for name in order])
    lines = [
        [name, ", ".join(itertools.compress(order, row)) or "none"] for name, row in zip(order, better, strict=True)
    ]
    return markdown(["row, best first", "significantly better than"], lines)


def _parsed(about, changes, folder):
    """The arguments of the command line, and the flags that are for training."""
    parser = argparse.ArgumentParser(
        description=about, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--seeds", default="0,1,2", help="joined by commas")
    parser.add_argument("--runs", default=folder, help="folder of the run directories")
    parser.add_argument("--records", help="file that keeps complete runs' results, and goes on from those it has")
    parser.add_argument("--row", action="append", choices=list(changes), help="as often as wanted; all if not at all")
    parser.add_argument("--intervals", action="store_true", help="compare each row with the first")
    parser.add_argument("--pairwise", action="store_true", help="list which rows differ significantly from which")
    parser.add_argument("--curves", help="image file of the learning curves of all rows; default: RUNS/curves.svg")
    return parser.parse_known_args()
