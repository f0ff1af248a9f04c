"""Cells of tables: text for people, numbers for programs.

A cell is a text, a number, or an object with `text()` and `numbers()`.
"""

import statistics
from dataclasses import dataclass


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
