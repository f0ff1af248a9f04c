"""Chooses settings of a study's rows on validation classes, with as many trials for each row."""

from typing import NamedTuple

from tfdml.run.study.runs import complete, resolved, runs_of

METRIC = "recall_at_1"
# The same whatever seeds a study is given, so that parts of it on several machines choose alike.
SEED = "0"


class Search(NamedTuple):
    """Settings that were tried for the rows of a study.

    Args:
        tried: name of the row to pairs of a setting's flags and what it reached on validation classes.
        searching: flags of the runs that search alone.
    """

    tried: dict
    searching: list

    def setting(self, name):
        """The flags of a row's setting that is best on validation classes."""
        return max(self.tried[name], key=lambda setting: setting[1])[0]

    def budget(self):
        """A sentence that says what was tried."""
        count = len(next(iter(self.tried.values())))
        more = f", and with {' '.join(f'`{flag}`' for flag in self.searching)}" if self.searching else ""
        return f"Validation chose among {count} settings of each of these rows, with seed {SEED}{more}:"


def search(rows, settings, folder, searching=(), records=None, which="best"):
    """Trains each row with each of its settings and the seed 0.

    Args:
        rows: name of the row to its flags, its flagfile first; they have to hold out validation classes.
        settings: name of the row to the settings to try, each a list of flags.
        folder: folder of the run directories.
        searching: flags of the runs that search, which the runs of the chosen settings do not have.
        records: file that keeps what complete runs came to; None for none.
        which: `best` or `final` model, whose Recall@1 on validation classes counts.
    """
    numbers = {name: len(settings[name]) for name in rows}
    if len(set(numbers.values())) != 1:
        raise ValueError(f"Expected as many settings for each row, received {numbers}.")
    for name, flags in rows.items():
        if resolved([*flags, *searching])["evaluate_on"] != "--evaluate_on=validation":
            raise ValueError(f"The row {name!r} needs --evaluate_on=validation: settings are not chosen on the test.")
    planned = trials_of(rows, settings, searching)
    results = complete([runs_of(flags, [SEED], folder)[0] for _, _, flags in planned], records)
    tried = {name: [] for name in rows}
    for (name, setting, _), result in zip(planned, results, strict=True):
        tried[name].append((setting, reached(result, which)))
    return Search(tried, list(searching))


def trials_of(rows, settings, searching):
    """Returns the runs of a search, each as the name of its row, its setting and all its flags; see `search`."""
    # Rows that differ in such a flag alone share the runs of their search.
    replaced = {_name(flag) for flag in searching}
    kept = {name: [flag for flag in flags if _name(flag) not in replaced] for name, flags in rows.items()}
    return [(name, setting, [*kept[name], *setting, *searching]) for name in rows for setting in settings[name]]


def reached(result, which):
    """Returns what the result of a run reached on validation classes, by which a search chooses."""
    return result["validation"]["best" if which == "best" else "metrics"][METRIC]


def _name(flag):
    return flag.partition("=")[0]
