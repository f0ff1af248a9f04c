"""Studies whose rows each change a flagfile: trains them and prints a table."""

import argparse
from functools import partial

from benchmarks.measured import difference, measure
from benchmarks.runs import complete, markdown, runs_of
from benchmarks.searches import search


def compare(
    about, flagfile, changes, folder, heads, row, settings=None, searching=(), which="best", slices=0, differences=()
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
        which: `best` or `final` model, for differences between rows.
        slices: as `benchmarks.measured.measure` takes it.
        differences: pairs of names of rows. Below the table is how much higher Recall@1 of each second one is.
    """
    arguments, flags = _parsed(about, changes, folder)
    seeds, names = arguments.seeds.split(","), arguments.row or list(changes)
    changes = {name: [*changes[name], *flags] for name in names}
    if settings:
        found = search(flagfile, changes, settings, seeds[0], arguments.runs, searching, arguments.records)
        print(f"Validation chose, with seed {seeds[0]}:\n\n{found.table()}\n")
        changes = found.chosen
    runs = {name: runs_of(flagfile, changes[name], seeds, arguments.runs) for name in names}
    every = [run for several in runs.values() for run in several]
    results = iter(complete(every, arguments.records, partial(measure, which=which, slices=slices)))
    run_dirs = {name: [run.path for run in several] for name, several in runs.items()}
    rows = {name: [name, *row([next(results) for _ in paths], paths)] for name, paths in run_dirs.items()}
    if arguments.intervals:
        heads = [*heads, f"Recall@1 beside {names[0]}"]
        for name in names:
            rows[name].append("" if name == names[0] else difference(run_dirs[names[0]], run_dirs[name]))
    print(markdown(heads, list(rows.values())))
    for first, second in differences:
        if first in names and second in names:
            print(f"\n{second} minus {first}: {difference(run_dirs[first], run_dirs[second])}")
    if arguments.curves:
        # Only here, because it loads what draws.
        from benchmarks.curves import draw_curves

        draw_curves(run_dirs, arguments.curves)


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
    parser.add_argument("--curves", help="an image file for the learning curves of all rows, such as curves.svg")
    return parser.parse_known_args()
