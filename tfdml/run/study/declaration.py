"""The declaration of a study."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Study:
    """A study: the rows that it trains, and the columns of its table.

    Args:
        flagfile: path of the flagfile that every row changes; empty where the first flag of each row is its own.
        rows: name of the row to its flags, a list such as `["--method=single"]`.
        columns: head of the column to a function of a row's results and run directories that gives its cell, see
            `tfdml.run.study.columns` and `cells`.
        folder: folder of the run directories unless `--runs` says another.
        settings: name of the row to the settings among which validation chooses, each a list of flags, and as many for
            each row; empty where there is nothing to choose.
        searching: flags of the runs that search alone, such as fewer members.
        follow: name of a row without settings to the row whose chosen setting it has.
        which: `best` or `final` model, by which settings are chosen, rows differ and learners are measured.
        learners: as `tfdml.run.study.measured.measure` takes it.
        differences: pairs of names of rows. Below the table is how much higher Recall@1 of each second one is.
        head: head of the names of the rows.
        curve: metric of the learning curves.
        measured: whether runs are measured once more even if no option asks for it.
        every_fold: whether a row is trained on each of its `--folds`; a seed's result is then the mean of its folds.
        conclusion: function of the results, by names of rows, that gives a line below the table, or None.
    """

    flagfile: str
    rows: Mapping[str, Sequence[str]]
    columns: Mapping[str, Callable]
    folder: str
    settings: Mapping[str, Sequence] = field(default_factory=dict)
    searching: Sequence[str] = ()
    follow: Mapping[str, str] = field(default_factory=dict)
    which: str = "best"
    learners: int = 0
    differences: Sequence = ()
    head: str = "row"
    curve: str = "recall_at_1"
    measured: bool = True
    every_fold: bool = False
    conclusion: Callable | None = None

    def flags(self, name):
        """The flags of a row, its flagfile first."""
        return [*[f"--flagfile={self.flagfile}"] * bool(self.flagfile), *self.rows[name]]
