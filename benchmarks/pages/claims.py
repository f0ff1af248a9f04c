"""Differences that sentences claim, checked against their intervals."""

import re
from typing import NamedTuple


class Difference(NamedTuple):
    """How much higher Recall@1 of one row is than of another, in points, with its 95 % interval."""

    mean: float
    low: float
    high: float

    @property
    def is_seen(self):
        """Whether the interval is above 0."""
        return self.low > 0

    @property
    def is_significant(self):
        """Whether the interval does not contain 0."""
        return self.low > 0 or self.high < 0

    def turned(self):
        """The difference of the two rows the other way round."""
        return Difference(-self.mean, -self.high, -self.low)


def difference_of(recorded, text):
    """Returns the `Difference` that a text names: `A minus B`, or `A minus B [5 seeds]`.

    Args:
        recorded: the `Recorded` study, whose rows are named.
        text: two names of rows.
    """
    pair, seeds = re.fullmatch(r"(.*?)(?: \[(\d+) seeds\])?", " ".join(text.split())).groups()
    first, minus, second = pair.partition(" minus ")
    unknown = [name for name in (first, second) if name not in recorded.rows]
    if not minus or unknown:
        raise ValueError(f"Expected `A minus B` of rows that the records have, received {text!r}.")
    return Difference(*recorded.difference(second, first, tuple(range(int(seeds))) if seeds else ()))


def _better(found):
    return found.low > 0


def _worse(found):
    return found.high < 0


def _alike(found):
    return found.low <= 0 <= found.high and found.mean > -0.05


# What a sentence can say of A minus B. Of rows that are alike the first is the one that is ahead, if by nothing.
CLAIMS = {"better": _better, "worse": _worse, "alike": _alike}
MEANINGS = {
    "better": "an interval above 0",
    "worse": "an interval below 0",
    "alike": "an interval around 0, and a mean of 0 or more",
}


def claimed(claim, found):
    """Returns the number and the interval of a difference in words, as `A is ... points (... to ...) better`.

    Args:
        claim: `better`, `worse` or `alike`.
        found: the `Difference`.
    """
    if not CLAIMS[claim](found):
        raise ValueError(f"Expected {MEANINGS[claim]}, the records have {text_of(found)}.")
    mean, low, high = found.turned() if claim == "worse" else found
    return f"{_number(mean)}", f"({_number(low)} to {_number(high)})"


def compared(found):
    """Returns a difference in words, whatever it is, as `A is ... B`."""
    how, (mean, low, high) = ("worse", found.turned()) if found.mean < 0 else ("better", found)
    doubt = "" if found.is_significant else ", not significant"
    return f"{_number(mean)} points ({_number(low)} to {_number(high)}{doubt}) {how} than"


def judged(found):
    """Returns whether a difference above 0, which a paper claims, is seen."""
    how = "seen" if found.is_seen else "the opposite is seen" if found.is_significant else "not seen"
    return f"{how}: {text_of(found)}"


def text_of(found):
    """Returns a difference with its sign and its interval."""
    return f"{round(found.mean, 1) + 0.0:+.1f} ({_number(found.low)} to {_number(found.high)})"


def _number(value):
    # No -0.0.
    return f"{round(value, 1) + 0.0:.1f}"
