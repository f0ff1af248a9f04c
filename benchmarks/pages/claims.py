"""Checks the differences that sentences claim against their confidence intervals."""

import re
from typing import NamedTuple

# The interval of one seed does not cover the variation between seeds. It must end farther from 0 than this number of
# percentage points.
MARGIN_OF_ONE_SEED = 1


class Difference(NamedTuple):
    """Difference in Recall@1 between two rows, in percentage points, with its 95% confidence interval.

    `margin` is the distance from 0 that the interval must exceed to confirm or contradict a claim.
    """

    mean: float
    low: float
    high: float
    margin: float = 0

    @property
    def is_seen(self):
        """Whether the interval is above 0, by more than the margin."""
        return self.low > self.margin

    @property
    def is_conclusive(self):
        """Whether the interval is above or below 0, by more than the margin."""
        return self.is_seen or self.turned().is_seen

    @property
    def is_significant(self):
        """Whether the interval does not contain 0."""
        return self.low > 0 or self.high < 0

    def turned(self):
        """Returns the difference with the two rows exchanged."""
        return Difference(-self.mean, -self.high, -self.low, self.margin)


def difference_of(recorded, text):
    """Returns the `Difference` that a text names: `A minus B`, or `A minus B [5 seeds]`.

    Args:
        recorded: The `Recorded` study that has the rows.
        text: The names of two rows.
    """
    pair, seeds = re.fullmatch(r"(.*?)(?: \[(\d+) seeds\])?", " ".join(text.split())).groups()
    first, minus, second = pair.partition(" minus ")
    unknown = [name for name in (first, second) if name not in recorded.rows]
    if not minus or unknown:
        raise ValueError(f"Expected `A minus B` with rows that the records have. Received: {text!r}.")
    seeds = tuple(range(int(seeds))) if seeds else ()
    margin = MARGIN_OF_ONE_SEED if len(seeds or recorded.seeds) == 1 else 0
    return Difference(*recorded.difference(second, first, seeds), margin)


def _better(found):
    return found.is_seen


def _worse(found):
    return found.turned().is_seen


def _alike(found):
    return not found.is_conclusive and found.mean > -0.05


# What a sentence can claim about A minus B. If two rows are alike, the first one must be the better one, or equal.
CLAIMS = {"better": _better, "worse": _worse, "alike": _alike}


def expected(claim, found):
    """Returns what a claim expects of a `Difference`."""
    if claim == "alike":
        close = f" or ends within {found.margin} point of it" if found.margin else ""
        return f"an interval that contains 0{close} and a mean of at least 0"
    return f"an interval above {found.margin}" if claim == "better" else f"an interval below {-found.margin}"


def claimed(claim, found):
    """Returns the number and the interval of a difference, for sentences such as `A is ... points (... to ...) better`.

    Args:
        claim: `better`, `worse` or `alike`.
        found: The `Difference`.
    """
    if not CLAIMS[claim](found):
        raise ValueError(f"Expected {expected(claim, found)}. The records have {text_of(found)}.")
    found = found.turned() if claim == "worse" else found
    return _number(found.mean), f"({_interval(found)})"


def compared(found):
    """Returns a difference in words that suit its sign, for sentences such as `A is ... B`."""
    how, found = ("worse", found.turned()) if found.mean < 0 else ("better", found)
    doubt = "" if found.is_conclusive else ", inconclusive" if found.is_significant else ", not significant"
    return f"{_number(found.mean)} points ({_interval(found)}{doubt}) {how} than"


def judged(found):
    """Returns whether the records confirm a difference above 0, which a paper claims."""
    how = "confirmed" if found.is_seen else "contradicted" if found.is_conclusive else "inconclusive"
    mean = text_of(found).partition(" ")[0]
    return f"{how}: {mean} points (95% CI {_interval(found)})"


def text_of(found):
    """Returns a difference with its sign and its confidence interval."""
    return f"{round(found.mean, 1) + 0.0:+.1f} ({_interval(found)})"


def _interval(found):
    return f"{_bound(found.low)} to {_bound(found.high)}"


def _bound(value):
    # With two decimals, a bound near 0 shows on which side of 0 it is.
    return f"{value:.2f}" if 0.005 <= abs(value) < 0.05 else _number(value)


def _number(value):
    # Adding 0.0 turns -0.0 into 0.0.
    return f"{round(value, 1) + 0.0:.1f}"
