"""Studies: rows of flags that are trained over seeds, and how modules declare them."""

import importlib
import importlib.util
import re
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Study:
    """A study: the rows that it trains, and the columns of its table.

    Args:
        flagfile: path of the flagfile that every row changes; if empty, the first flag of each row is its own.
        rows: name of the row to its flags, a list such as `["--method=single"]`.
        columns: head of the column to a function of a row's results and run directories that returns its cell, see
            `tfdml.run.study.tables`.
        folder: folder of the run directories unless `--runs` names another.
        settings: name of the row to the settings among which validation chooses, each a list of flags, and the same
            number for each row; empty if there is nothing to choose.
        searching: flags of the runs that search alone, such as fewer members.
        follow: name of a row without settings to the row whose chosen setting it has.
        which: `best` or `final` model, by which settings are chosen, rows differ and learners are measured.
        learners: see `tfdml.run.study.records.measure`.
        differences: pairs of names of rows; a table shows how much higher Recall@1 of each second one is.
        head: head of the names of the rows.
        curve: metric of the learning curves.
        measured: whether runs are measured once more even if no option asks for it.
        every_fold: whether a row is trained on each of its `--folds`; a seed's result is then the mean of its folds.
        conclusion: function of the results, by names of rows, that returns a line below the table, or None.
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
        """Returns the flags of a row, its flagfile first."""
        return [*[f"--flagfile={self.flagfile}"] * bool(self.flagfile), *self.rows[name]]


@dataclass(frozen=True)
class Spread:
    """A value for each seed; the text multiplies them by `scale`, 100 for percent, and formats them by `form`."""

    values: list
    scale: float = 100.0
    form: str = ".1f"

    def text(self):
        """Returns mean ± standard deviation."""
        numbers = self.numbers()
        shown = [numbers[name] for name in ("mean", "std") if name in numbers]
        return " ± ".join(f"{self.scale * number:{self.form}}" for number in shown)

    def numbers(self):
        """Returns mean, standard deviation if there are several, and the value of each seed, not scaled."""
        values = [float(value) for value in self.values]
        deviation = {"std": statistics.stdev(values)} if len(values) > 1 else {}
        return {"mean": statistics.mean(values), **deviation, "seeds": values}


@dataclass(frozen=True)
class Difference:
    """How much higher Recall@1 is, with its 95% interval, as fractions; the text is in percent."""

    mean: float
    low: float
    high: float

    def text(self):
        return f"{100 * self.mean:+.1f} ({100 * self.low:+.1f} to {100 * self.high:+.1f})"

    def numbers(self):
        return {"difference": float(self.mean), "low": float(self.low), "high": float(self.high)}


@dataclass(frozen=True)
class Number:
    """A number; the text multiplies it by `scale`, and formats it by `form`."""

    value: float
    form: str = ".1f"
    scale: float = 1.0

    def text(self):
        return f"{self.scale * self.value:{self.form}}"

    def numbers(self):
        return float(self.value)


@dataclass(frozen=True)
class Flags:
    """Flags of a command line."""

    flags: list

    def text(self):
        return " ".join(self.flags) or "as it is"

    def numbers(self):
        return list(self.flags)


def text_of(cell):
    """Returns the text of a cell."""
    return str(cell) if isinstance(cell, str | int | float) else cell.text()


def numbers_of(cell):
    """Returns what JSON holds of a cell: a number, a text, or a dictionary or list of them."""
    return cell if isinstance(cell, str | int | float) else cell.numbers()


def declared_by(name):
    """Returns the `STUDY` that a module declares; None if `name` is a file, such as `configs/a.flags`, or unknown."""
    if Path(name).is_file() or not re.fullmatch(r"[^\W\d]\w*(\.[^\W\d]\w*)*", name):
        return None
    try:
        is_module = importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        # The package of a name with dots is missing.
        is_module = False
    if not is_module:
        return None
    study = vars(importlib.import_module(name)).get("STUDY")
    if not isinstance(study, Study):
        raise ValueError(f"Expected the module {name} to declare STUDY, a Study of tfdml.run.study.study.")
    return study
