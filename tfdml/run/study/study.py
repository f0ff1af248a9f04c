"""Studies: rows of flags that are trained with several seeds, and how modules declare them."""

import importlib
import importlib.util
import re
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Study:
    """A study, with the rows that it trains and the columns of its table.

    Args:
        flagfile: path of the flagfile that every row changes. If empty, each row starts with its own flagfile.
        rows: dictionary from name of a row to its flags, a list such as `["--method=single"]`.
        columns: dictionary from heading of a column to a function of a row's results and run directories that returns
            its cell; see `tfdml.run.study.tables`.
        folder: default folder of the run directories, which `--runs` replaces.
        settings: dictionary from name of a row to the settings among which validation chooses, each a list of flags.
            Each row must have the same number. If empty, there is nothing to choose. Defaults to `{}`.
        searching: flags that only the runs of the search have, such as fewer members. Defaults to `()`.
        follow: dictionary from name of a row without settings to the row with the chosen setting that it uses. Defaults
            to `{}`.
        which: whether the `"best"` or `"final"` models choose settings and are compared and measured. Defaults to
            `"best"`.
        learners: see `tfdml.run.study.records.measure`. Defaults to `0`.
        elsewhere: other datasets to measure models on; see `tfdml.run.study.records.measure`. Defaults to `{}`.
        differences: pairs of names of rows. A table shows Recall@1 of the second minus Recall@1 of the first. Defaults
            to `()`.
        head: heading of the names of the rows. Defaults to `"row"`.
        curve: metric of the learning curves. Defaults to `"recall_at_1"`.
        measured: whether runs are measured again even if no option requires it. Defaults to `True`.
        every_fold: whether each row is trained on all its `--folds`. The result of a seed is then the mean of its
            folds. Defaults to `False`.
        conclusion: function of the results, by names of rows, that returns a line below the table or None. If `None`,
            there is no such line. Defaults to `None`.
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
    elsewhere: Mapping[str, Mapping] = field(default_factory=dict)
    differences: Sequence = ()
    head: str = "row"
    curve: str = "recall_at_1"
    measured: bool = True
    every_fold: bool = False
    conclusion: Callable | None = None

    def flags(self, name):
        """Returns the flags of a row, with its flagfile first."""
        return [*[f"--flagfile={self.flagfile}"] * bool(self.flagfile), *self.rows[name]]


@dataclass(frozen=True)
class Spread:
    """One value per seed. The text multiplies values by `scale` (100 for percent) and formats them with `form`."""

    values: list
    scale: float = 100.0
    form: str = ".1f"

    def text(self):
        """Returns mean ± standard deviation."""
        numbers = self.numbers()
        shown = [numbers[name] for name in ("mean", "std") if name in numbers]
        return " ± ".join(f"{self.scale * number:{self.form}}" for number in shown)

    def numbers(self):
        """Returns the mean, the standard deviation of several seeds, and the value of each seed, without scaling."""
        values = [float(value) for value in self.values]
        deviation = {"std": statistics.stdev(values)} if len(values) > 1 else {}
        return {"mean": statistics.mean(values), **deviation, "seeds": values}


@dataclass(frozen=True)
class Difference:
    """A difference in Recall@1 with its 95% confidence interval, as fractions. The text is in percentage points."""

    mean: float
    low: float
    high: float

    def text(self):
        return f"{100 * self.mean:+.1f} ({100 * self.low:+.1f} to {100 * self.high:+.1f})"

    def numbers(self):
        return {"difference": float(self.mean), "low": float(self.low), "high": float(self.high)}


@dataclass(frozen=True)
class Number:
    """A number. The text multiplies it by `scale` and formats it with `form`."""

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
    """Returns the JSON value of a cell: a number, a text, or a dictionary or list of them."""
    return cell if isinstance(cell, str | int | float) else cell.numbers()


def declared_by(name):
    """Returns the `STUDY` that a module declares, or None if `name` is unknown or a file such as `configs/a.flags`."""
    if Path(name).is_file() or not re.fullmatch(r"[^\W\d]\w*(\.[^\W\d]\w*)*", name):
        return None
    try:
        is_module = importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        # The parent package of the name is missing.
        is_module = False
    if not is_module:
        return None
    study = vars(importlib.import_module(name)).get("STUDY")
    if not isinstance(study, Study):
        raise ValueError(f"The module {name} must declare STUDY, a tfdml.run.study.study.Study.")
    return study
