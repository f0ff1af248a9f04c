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
        flagfile: path of the flagfile that every row changes; empty where the first flag of each row is its own.
        rows: name of the row to its flags, a list such as `["--method=single"]`.
        columns: head of the column to a function of a row's results and run directories that gives its cell, see
            `tfdml.run.study.driver` and `cells`.
        folder: folder of the run directories unless `--runs` says another.
        settings: name of the row to the settings among which validation chooses, each a list of flags, and as many for
            each row; empty where there is nothing to choose.
        searching: flags of the runs that search alone, such as fewer members.
        follow: name of a row without settings to the row whose chosen setting it has.
        which: `best` or `final` model, by which settings are chosen, rows differ and learners are measured.
        learners: as `tfdml.run.study.records.measure` takes it.
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


@dataclass(frozen=True)
class Spread:
    """A value of each seed.

    Args:
        values: one for each seed.
        scale: what the text multiplies them by: 100 for percent.
        form: how the text writes a number.
    """

    values: list
    scale: float = 100.0
    form: str = ".1f"

    def text(self):
        """Mean ± standard deviation."""
        numbers = self.numbers()
        parts = [numbers["mean"], *([numbers["std"]] if "std" in numbers else [])]
        return " ± ".join(f"{self.scale * part:{self.form}}" for part in parts)

    def numbers(self):
        """Mean, standard deviation if there are several, and the value of each seed, none of them scaled."""
        values = [float(value) for value in self.values]
        deviation = {"std": statistics.stdev(values)} if len(values) > 1 else {}
        return {"mean": statistics.mean(values), **deviation, "seeds": values}


@dataclass(frozen=True)
class Difference:
    """How much higher Recall@1 is, with its 95 % interval, as fractions."""

    mean: float
    low: float
    high: float

    def text(self):
        """In percent."""
        return f"{100 * self.mean:+.1f} ({100 * self.low:+.1f} to {100 * self.high:+.1f})"

    def numbers(self):
        return {"difference": float(self.mean), "low": float(self.low), "high": float(self.high)}


@dataclass(frozen=True)
class Number:
    """A number.

    Args:
        value: the number.
        form: how the text writes it.
        scale: what the text multiplies it by.
    """

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
    """Returns the `Study` that a module declares as `STUDY`; None if the name is that of a file, or of no module.

    Args:
        name: what the command line has, such as `my_study` or `configs/a.flags`.
    """
    if Path(name).is_file() or not re.fullmatch(r"[^\W\d]\w*(\.[^\W\d]\w*)*", name) or not _is_module(name):
        return None
    found = vars(importlib.import_module(name)).get("STUDY")
    if not isinstance(found, Study):
        raise ValueError(f"Expected the module {name} to declare STUDY, a Study of tfdml.run.study.study.")
    return found


def _is_module(name):
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        # Its package, of a name with dots.
        return False
